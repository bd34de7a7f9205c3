"""What bounds a run of `make bench`, what is left of one that breaks, and what its page shows."""

import json
from pathlib import Path
from typing import Any

import pytest

from dev.bench import command, page, room, run
from dev.bench.figure import STATED, Figure, Measured, Ratio, Samples, StructureError
from dev.bench.room import LIMIT_BYTES, Room
from dev.bench.stage import APACHE, EMBEDDED, Stage

WHOLE = Measured(Ratio([2.0]), {"side": Samples([4.0])})


def broken(_stage: Stage) -> Measured:
    raise StructureError("of 5 items 4 were whole")


def test_what_was_measured_before_a_run_broke_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = [
        Figure("whole", "one thing ÷ another", STATED, lambda _stage: WHOLE),
        Figure("broken", "what cannot be", STATED, broken),
    ]
    monkeypatch.setattr(command, "FIGURES", {one.name: one for one in figures})
    found = tmp_path / "found.json"
    told = run.run(["--short", "--json", str(found)])
    assert told == "The structure is broken: of 5 items 4 were whole."
    assert [row["figure"] for row in json.loads(found.read_text())] == ["whole"]
    assert "half of the rounds" in capsys.readouterr().out


def test_a_run_that_takes_more_of_the_disk_than_it_may_is_broken() -> None:
    Room(LIMIT_BYTES).require()
    with pytest.raises(StructureError, match=r"it took 20\.0 GB of disk, more than it may"):
        Room(LIMIT_BYTES + 1).require()


def test_a_full_run_does_not_begin_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LIMIT_BYTES", 10**18)
    assert "make room, or run it with --short" in str(run.run(["--only", "help"]))


def test_both_brokers_are_shown_and_a_run_renews_what_it_measured_only(tmp_path: Path) -> None:
    def row(figure: str, verdict: str) -> dict[str, Any]:
        cells = [figure, "one thing ÷ another", "≥ 1", "2.00", "1.90 to 2.10", verdict]
        return {"figure": figure, "cells": cells, "sides": [], "load": [0, 0], "series": {}}

    page.write(tmp_path, "first", [row("drain", "missed"), row("month", "reached")], EMBEDDED)
    page.write(tmp_path, "real", [row("drain", "reached")], APACHE)
    page.write(tmp_path, "again", [row("drain", "stated")], EMBEDDED)
    lines = (tmp_path / "README.md").read_text().splitlines()
    shown = {line.split(" | ")[0]: line for line in lines if "one thing ÷ another" in line}
    assert list(shown) == ["| drain", "| drain-apache", "| month"]
    verdicts = [line.split(" | ")[-1] for line in shown.values()]
    assert verdicts == ["stated |", "reached |", "reached |"]
    kept = json.loads((tmp_path / "figures.json").read_text())
    assert {name: one["command"] for name, one in kept.items()} == {
        "drain": "again",
        "drain-apache": "real",
        "month": "first",
    }
