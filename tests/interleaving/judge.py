"""Watches a schedule and says what in it breaks a rule.

After every commit the whole database must be what the specification makes of the commits so far.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.domain.law import Refusal
from app.store import errors
from app.store.failures import Failure
from tests.interleaving.actor import Actor
from tests.interleaving.model import Model, Refused
from tests.interleaving.roles import Role, Scene
from tests.interleaving.rows import Rows, differences
from tests.interleaving.schedule import Event, Went
from tests.interleaving.step import CLAIM, COUNT, ENDS, Kind

REMINDER_REFUSED = Failure(
    "CheckViolation: no_pending_reminder_on_cancelled_event", sqlstate="23514"
)


@dataclass(frozen=True)
class Ended:
    """How a schedule came out, in the words of the table."""

    appointment: str
    """Its status, or what else became of it."""
    did: tuple[str, ...]
    """Who changed something, in the order of their commits."""
    figures: tuple[str, ...]
    """Of each cycle: expired, passed over."""
    messages: tuple[str, ...]
    waited: tuple[str, ...]


@dataclass(frozen=True)
class Played:
    """A schedule, how it came out, and what in it broke a rule."""

    events: tuple[Event, ...]
    ended: Ended
    violations: tuple[str, ...]


@dataclass
class _Cycle:
    """What the judge expects of one cycle."""

    claimed: bool = False
    won: bool = False
    passed_over: int = 0
    as_of: datetime | None = None


@dataclass
class Judge:
    """Told of every event once all actors stand; asked for its verdict at the end."""

    cast: Mapping[Actor, Role]
    scene: Scene
    look: Callable[[], Rows]
    as_of: Callable[[str], datetime]
    broken: list[str] = field(default_factory=list)
    did: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model = Model(self.look())
        self.roles = {actor.name: role for actor, role in self.cast.items()}
        self.actors = {actor.name: actor for actor in self.cast}
        self.cycles = {name: _Cycle() for name, role in self.roles.items() if role.law is None}
        self.waited: list[str] = []
        self.may_wake = False

    def saw(self, event: Event) -> None:
        """One event: keep the books of who holds what, and compare after every commit."""
        name, step = event.actor, event.step
        if event.went is Went.INTO_A_WAIT:
            self.waited.append(name)
            if name in self.cycles:
                self.broken.append(f"C2: {name} waited at {step.label!r}")
            return
        if event.went is Went.OUT_OF_A_WAIT and not self.may_wake:
            self.broken.append(f"S5: {name} was woken by something else than the holder's end")
        if event.went is Went.THROUGH:
            self.may_wake = step.kind in ENDS
        if name in self.cycles:
            self._cycle(name, event)
        elif step.kind in ENDS:
            self._rival(name)
        if step.kind is Kind.COMMIT:
            self.broken += differences(self.look(), self.model.rows)

    def _cycle(self, name: str, event: Event) -> None:
        """C2, C6: it takes what is overdue and free, and counts what it had to pass over."""
        cycle, step = self.cycles[name], event.step
        if step.label not in {CLAIM, COUNT} and step.kind is not Kind.COMMIT:
            return
        as_of = cycle.as_of = cycle.as_of or self.as_of(self.scene.run_id(name))
        if step.label == CLAIM and not cycle.claimed:
            others = [actor.holds for other, actor in self.actors.items() if other != name]
            cycle.won = bool(self.model.overdue(as_of)) and not any(others)
            cycle.claimed = True
        if step.label == COUNT and not cycle.won:
            cycle.passed_over = len(self.model.overdue(as_of))
        if step.kind is Kind.COMMIT and cycle.won and name not in self.did:
            self._did(
                name,
                lambda: self.model.expire(
                    self.scene.made.appointment, as_of, self.scene.run_id(name)
                ),
                succeeded=True,
            )

    def _rival(self, name: str) -> None:
        """Its transaction is over: it succeeded exactly if the specification lets it."""
        actor, law = self.actors[name], self.roles[name].law
        assert law is not None
        if not actor.done:
            self.broken.append(f"{name} ended a transaction in the middle of its work")
            return
        self._did(
            name,
            lambda: law(self.model, self.scene, name, actor.result),
            succeeded=actor.error is None and actor.result != 0,
        )

    def _did(self, name: str, law: Callable[[], None], *, succeeded: bool) -> None:
        try:
            law()
        except Refused:
            if succeeded:
                self.broken.append(f"R1: {name} succeeded, which is forbidden here")
        else:
            self.did.append(name)
            if not succeeded:
                self.broken.append(f"R1: {name} was refused, which is allowed here")

    def played(self, events: Sequence[Event]) -> Played:
        """The verdict, after the last event."""
        if not self.broken:
            self.broken += differences(self.look(), self.model.rows)
        for name, actor in self.actors.items():
            self._check_error(name, actor.error)
            if name in self.cycles and actor.error is None:
                self._check_report(name, actor.result)
        return Played(tuple(events), self._ended(), tuple(self.broken))

    def _check_error(self, name: str, error: BaseException | None) -> None:
        """S6: nobody hears of a deadlock; a refusal is the law's or the reminder guard's."""
        if error is None or isinstance(error, Refusal):
            return
        failure = errors.failure(error) if isinstance(error, Exception) else error
        if failure != REMINDER_REFUSED:
            self.broken.append(f"S6: {name} ended with {failure}")

    def _check_report(self, name: str, report: Any) -> None:
        """C6: the figures are true."""
        cycle = self.cycles[name]
        found = (report.outcome, report.expired, report.released, report.failed)
        if found != ("completed", cycle.won, cycle.won, 0):
            self.broken.append(f"C6: {name} reports {found}, won: {cycle.won}")
        if report.skipped_locked != cycle.passed_over:
            self.broken.append(
                f"C6: {name} reports SkippedLockedCount {report.skipped_locked},"
                f" passed over: {cycle.passed_over}"
            )

    def _ended(self) -> Ended:
        made, rows = self.scene.made, self.model.rows
        row = rows.appointments.get(made.appointment)
        return Ended(
            appointment=row["status"] if row else "gone",
            did=tuple(self.did),
            figures=tuple(
                f"{int(cycle.won)} expired, {cycle.passed_over} skipped"
                for cycle in self.cycles.values()
            ),
            messages=tuple(m.get("Reason") or m["Status"] for m in rows.about(made.appointment)),
            waited=tuple(sorted(set(self.waited))),
        )
