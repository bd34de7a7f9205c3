"""The demo's eyes: follows the work in the database, and tells it with a progress display."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sqlalchemy import Engine, text

from app.store import runs
from dev.demo_sample import short
from dev.processes import Failure

_LOOK = 0.25  # seconds
_STANDSTILL = 60.0  # seconds without any progress after which it is a failure
_RECORD = 15.0  # seconds from a cycle's last commit until its record is closed
_KEPT = 50


class Voice:
    """Says what happens, with the seconds since the demo began."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = console.is_interactive and console.file.isatty()
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._began

    def say(self, sentence: str) -> None:
        """One line of what just happened."""
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_row(f"[dim]{self.seconds:6.1f} s[/]", sentence)
        self.console.print(line)

    def stopping(self) -> None:
        """A signal came."""
        self.say("Stopping all that was started …")

    def chapter(self, title: str) -> None:
        """What comes next."""
        self.console.print()
        self.console.rule(f"[bold]{title}", align="left", style="cyan")

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """Something takes a moment; shown while it does, in a terminal only."""
        if not self.live:
            yield
            return
        with self.console.status(doing):
            yield


class Watch:
    """Waits until so much is done, looking several times a second."""

    def __init__(self, voice: Voice, engine: Engine, look_after: Callable[[], None]) -> None:
        self._voice = voice
        self._engine = engine
        self._look_after = look_after  # raises when a process has died
        self._told: set[str] = set()

    def until(self, expired: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Return when so many appointments are expired and all their messages acknowledged.

        Failure when nothing moves for too long. `meanwhile` is called at every look.
        """
        last, moved = (-1, -1), time.monotonic()
        with self._progress() as progress:
            bars = [
                progress.add_task("Appointments expired", total=expired),
                progress.add_task("Messages acknowledged", total=expired * 2),
            ]
            while last[0] < expired or last[1] < expired * 2:
                self._look_after()
                meanwhile()
                found = self._look()
                if found != last:
                    last, moved = found, time.monotonic()
                elif time.monotonic() - moved > _STANDSTILL:
                    raise Failure(_standstill(found, expired))
                for bar, count in zip(bars, found, strict=True):
                    progress.update(bar, completed=count)
                self._tell_runs()
                time.sleep(_LOOK)

    def record(self, run_id: str) -> runs.Run | None:
        """The kept record of a run that is over or about to be."""
        deadline = time.monotonic() + _RECORD
        while True:
            with self._engine.begin() as connection:
                run = runs.one(connection, run_id)
            if time.monotonic() > deadline or (run is not None and run.finished_at is not None):
                return run
            time.sleep(_LOOK)

    def _progress(self) -> Progress:
        return Progress(
            TextColumn("{task.description:21}"),
            BarColumn(bar_width=30, complete_style="green"),
            MofNCompleteColumn(" of "),
            TimeElapsedColumn(),
            console=self._voice.console,
            disable=not self._voice.live,
        )

    def _look(self) -> tuple[int, int]:
        with self._engine.begin() as connection:
            row = connection.execute(_LOOK_AT).one()
        return row.expired, row.published

    def _tell_runs(self) -> None:
        with self._engine.begin() as connection:
            found = runs.last(connection, _KEPT)
        for run in reversed(found):
            if run.finished_at is not None and run.run_id not in self._told:
                self._told.add(run.run_id)
                if line := told(run):
                    self._voice.say(line)


_LOOK_AT = text(
    """
    SELECT (SELECT count(*) FROM calendar.appointments WHERE status = 'Expired') AS expired,
        (SELECT count(published_at) FROM calendar.outbox_messages) AS published
    """
)


def told(run: runs.Run) -> str:
    """A run as a sentence; nothing when it found nothing to do."""
    figures = run.result or {}
    what = "Cycle" if run.job == runs.Job.APPOINTMENT_TIMEOUT else "Drain"
    name = f"{what} {short(run.run_id)}"
    if run.outcome == runs.Outcome.FAILED:
        return f"[red]{name} failed:[/] {run.detail}"
    spent = f"({figures.get('DurationMs')} ms)"
    if count := figures.get("ExpiredCount"):
        slots = {
            "back on sale": figures["SlotsReleasedCount"],
            "too late": figures["SlotsExpiredCount"],
        }
        fates = ", ".join(f"{number} {fate}" for fate, number in slots.items() if number)
        return f"{name}: [bold]{count} expired[/], their slots: {fates} {spent}"
    if count := figures.get("PublishedCount"):
        return f"{name}: Kafka acknowledged [bold]{count} messages[/] {spent}"
    return ""


def _standstill(found: tuple[int, int], expired: int) -> str:
    return (
        f"Nothing moved for {_STANDSTILL:.0f} s: {found[0]} of {expired} appointments are expired"
        f" and {found[1]} of {expired * 2} messages acknowledged."
    )
