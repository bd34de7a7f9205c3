"""A whole run: the stage, one fault after the other, the scorecard, and nothing left behind."""

import os
import shutil
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from dev.chaos import page, scorecard
from dev.chaos.command import Wish, read
from dev.chaos.fault import Fault
from dev.chaos.kafkas import TITLES
from dev.chaos.show import Show
from dev.chaos.stage import Stage
from dev.chaos.trial import Judge, Line
from dev.processes import ROOT, Ending, sentence, shown
from dev.servers.process import ServerError


def run(argv: Sequence[str]) -> int | str:
    """Do it; the exit code, or why it could not be done."""
    wish, console = read(argv), Console(highlight=False)
    if wish.listing:
        console.print(_listing(wish.faults))
        return 0
    directory = ROOT / ".run" / "chaos" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    directory.mkdir(parents=True)
    clean = False
    try:
        lines = _play(wish, directory, console)
        clean = all(line.clean for line in lines)
    except ServerError as error:
        return f"Chaos could not be played: {sentence(error)} The logs are in {shown(directory)}."
    except SystemExit:  # a signal: nobody will read the logs
        clean = True
        raise
    finally:
        if clean:
            _remove(directory)
    _report(wish, lines, console)
    if not clean:
        console.print(f"The logs are in {shown(directory)}.")
    return 0 if clean else 1


def _play(wish: Wish, directory: Path, console: Console) -> list[Line]:
    lines: list[Line] = []
    with Show(console) as show, Ending() as ending:
        show.say(f"{len(wish.faults)} faults with {TITLES[wish.kind]}; seed {wish.seed}")
        show.chapter("the stage")
        stage = Stage(directory, kind=wish.kind, pace=wish.pace, seed=wish.seed)
        ending.callback(show.phase, "stopping all that was started")
        stage.build(ending, show.phase)
        show.say("the product works; people book")
        judge = Judge(stage)
        for number, fault in enumerate(wish.faults, 1):
            show.chapter(f"{number} of {len(wish.faults)}, {fault.name}")
            lines.append(judge.try_out(fault, show.phase))
            show.outcome(lines[-1])
        show.chapter("the end")
    return lines


def _report(wish: Wish, lines: list[Line], console: Console) -> None:
    survived = sum(line.clean for line in lines)
    title = f"{survived} of {len(lines)} faults survived, with {TITLES[wish.kind]}"
    console.print()
    console.print(scorecard.table(lines, title))
    console.print(f"The same again: {wish.command}")
    if wish.write is not None:
        day = datetime.now(UTC).date().isoformat()
        page.write(wish.write, wish.kind, wish.command, day, wish.pace, lines)
        console.print(f"Written to {shown(wish.write.resolve())}.")


def _listing(faults: Sequence[Fault]) -> Table:
    table = Table(Column("fault", no_wrap=True), "what it does", "how it is undone", "with")
    for fault in faults:
        table.add_row(fault.name, fault.does, fault.undone, " ".join(fault.kinds))
    return table


def _remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    for parent in (directory.parent, directory.parent.parent):
        try:
            parent.rmdir()
        except OSError:  # others are there
            return
