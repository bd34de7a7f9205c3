"""A whole run: the servers, one figure after the other, the table, and nothing left behind."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from dev.bench import page
from dev.bench.command import Wish, read
from dev.bench.figure import Figure, StructureError
from dev.bench.room import Room, gigabytes, too_small, watched
from dev.bench.stage import Stage
from dev.bench.table import Row, table
from dev.processes import ROOT, Ending, sentence, shown
from dev.progress import Progress
from dev.servers.process import ServerError

LIMIT_SECONDS = 3_600
"""No figure is begun after so long: a run is bounded, whatever machine it is on."""


def run(argv: Sequence[str]) -> int | str:
    """Do it; the exit code, or why it could not be done."""
    wish, console = read(argv), Console(highlight=False)
    if wish.listing:
        console.print(_listing(wish.figures))
        return 0
    directory = ROOT / ".run" / "bench" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    directory.mkdir(parents=True)
    rows: list[Row] = []
    try:
        if not wish.short and (refusal := too_small(directory)):
            return refusal
        with watched(directory) as room:
            _measure(wish, directory, console, rows, room)
    except ServerError as error:
        return f"The bench could not be run: {sentence(error)}"
    except StructureError as error:
        return f"The structure is broken: {error}."
    finally:  # what was measured before is not lost with it
        shutil.rmtree(directory, ignore_errors=True)
        _report(wish, rows, console)
    return 0


def _measure(wish: Wish, directory: Path, console: Console, rows: list[Row], room: Room) -> None:
    """Row by row; the rows are the caller's to report, whatever ends this."""
    with Progress(console) as progress, Ending() as ending:
        stage = Stage(directory, ending, short=wish.short, kind=wish.kind)
        began = time.monotonic()
        for number, figure in enumerate(wish.figures, 1):
            if time.monotonic() - began > LIMIT_SECONDS:
                left = ", ".join(one.name for one in wish.figures[number - 1 :])
                progress.say(f"[bold red]The hour is over; not measured: {left}[/]")
                break
            progress.chapter(f"{number} of {len(wish.figures)}, {figure.name}")
            progress.phase(figure.says)
            os.sync()  # what one figure has left to write is not the next one's wait
            before = os.getloadavg()[0]
            measured = figure.measure(stage)
            rows.append(row := Row(figure, measured, (before, os.getloadavg()[0])))
            ratio, reach = row.cells[3], row.cells[2]
            progress.say(f"{figure.name:22} {ratio:>9} ({reach}) {row.verdict}")
            for line in (*row.sides, *measured.notes):
                progress.say(f"    [dim]{line}[/]")
            room.require()
        progress.chapter("the end")
        minutes = (time.monotonic() - began) / 60
        progress.say(f"{minutes:.0f} minutes, and {gigabytes(room.taken)} of disk at the highest")


def _report(wish: Wish, rows: Sequence[Row], console: Console) -> None:
    if not rows:
        return
    console.print()
    console.print(table(rows))
    if wish.short:
        console.print("The short mode looks at the structure: its times mean nothing.")
    console.print(f"The same again: {wish.command}")
    whole = [row.as_json() for row in rows]
    if wish.json is not None:
        wish.json.write_text(json.dumps(whole, indent=1, default=str))
    if wish.write is not None:
        page.write(wish.write, wish.command, whole, wish.kind)
        console.print(f"Written to {shown(wish.write.resolve())}.")


def _listing(figures: Sequence[Figure]) -> Table:
    made = Table(Column("figure", no_wrap=True), "what is divided", "reach")
    for figure in figures:
        made.add_row(figure.name, figure.says, str(figure.reach))
    return made
