"""`make bench` in its short mode: every figure's structure, never its time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dev.bench import backlog
from dev.bench.catalogue import FIGURES
from dev.bench.figure import Ratio, Reach, Samples, StructureError, at_least
from dev.bench.publishers import check_order
from dev.bench.rounds import divide, side_by_side
from dev.processes import ROOT
from tests.world import World


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dev.bench", *arguments],
        cwd=ROOT,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.timeout(900)
def test_every_figure_is_measured_and_its_structure_holds(tmp_path: Path) -> None:
    found, page = tmp_path / "found.json", tmp_path / "page"
    ran = bench("--short", "--json", str(found), "--write", str(page))
    assert ran.returncode == 0, ran.stdout
    rows = json.loads(found.read_text())
    assert [row["figure"] for row in rows] == list(FIGURES)
    assert all(row["ratio"] > 0 and row["samples"] for row in rows)
    written = (page / "README.md").read_text()
    assert all(f"| {name} |" in written for name in FIGURES)


def test_a_figure_that_does_not_exist_is_refused_in_one_sentence() -> None:
    ran = bench("--only", "horsepower")
    assert (ran.returncode, "there is no figure horsepower" in ran.stdout) == (2, True)


def test_a_cascade_that_is_not_whole_is_a_broken_structure(world: World) -> None:
    backlog.bookings(world.engine, 5)
    assert world.run().expired == 5
    backlog.check_whole(world.engine, 5)
    world.execute("UPDATE calendar.event_reminders SET status = 'Sent' WHERE status = 'Skipped'")
    with pytest.raises(StructureError, match="0 of them whole"):
        backlog.check_whole(world.engine, 5)


@pytest.mark.parametrize(
    ("came", "told"),
    [
        (["1", "2"], "3 messages of key k"),
        (["2", "1", "3"], "3 messages of key k"),
        (["1", "2", "1", "3"], "1 messages came more than once"),
    ],
)
def test_what_came_out_of_order_or_not_once_is_a_broken_structure(
    came: list[str], told: str
) -> None:
    written = {("topic", "k"): ["1", "2", "3"]}
    check_order(written, {("topic", "k"): ["1", "2", "3"]})
    with pytest.raises(StructureError, match=told):
        check_order(written, {("topic", "k"): came})


def test_sides_are_measured_in_turns_and_each_round_begins_with_another() -> None:
    order: list[str] = []

    def side(name: str, value: float) -> float:
        order.append(name)
        return value

    found = side_by_side(2, {"a": lambda: side("a", 6), "b": lambda: side("b", 3)})
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert divide(found["a"], found["b"]) == Ratio([2, 2])
    assert found["b"] == Samples([3, 3])


def test_a_reach_is_met_on_its_own_side() -> None:
    assert at_least(0.9).met(0.9) is True
    assert Reach(250, at_least=False).met(251) is False
    assert Reach().met(1) is None
