"""docs/adopting.md keeps its word: every command and statement of it, run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.adoption.columns import WANTED
from tests.adoption.team import BEHIND_VIEWS, Team

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adopting.md").read_text()
SHELL = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
VIEW, LEAVE = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
EXAMINES = ("python -m app doctor", "python -m app verify")
"""Their exit code tells what they have found: here no broker, and rows that predate the rules."""


def lines(block: str) -> list[str]:
    return [line.partition("   #")[0].strip() for line in block.splitlines()]


@pytest.fixture
def environment(in_place: Team) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{in_place.server.bin_dir}:{os.environ['PATH']}"
    role = "calendar_worker"
    return {
        "PATH": path,
        "OWNER_URL": in_place.url,
        "WORKER_URL": in_place.url.replace("postgres@", f"{role}@"),
    }


def test_every_command_of_the_page_runs(in_place: Team, environment: dict[str, str]) -> None:
    crowded, free = in_place.book(), in_place.book()
    in_place.book(slot=crowded.slot)
    said = {}
    for block in SHELL:
        for line in lines(block):
            if line.startswith("export "):
                given = dict(word.split("=", 1) for word in line.split()[1:])
                environment |= {n: environment.get(v[1:], v) for n, v in given.items()}
                continue
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            codes = {0, 1} if line.startswith(EXAMINES) else {0}
            assert done.returncode in codes, (line, done.stdout, done.stderr)
            assert "Traceback" not in done.stderr, done.stderr
            said[line] = done.stdout
    assert str(free.appointment) in said["python -m app expire --dry-run"]
    assert "one-active-appointment-per-slot" in said["python -m app verify"]
    assert "is overdue" not in said["python -m app doctor"]
    assert in_place.world().run().expired == 1
    in_place.run("DROP OWNED BY calendar_worker")


def test_leaving_leaves_the_team_as_it_was(in_place: Team) -> None:
    before = in_place.shape()
    in_place.adopt()
    assert in_place.shape() != before
    in_place.run(LEAVE)
    assert in_place.shape() == before


def test_leaving_behind_views_is_dropping_their_schema_and_the_indexes(viewings: Team) -> None:
    [dropping] = re.findall(r"`(DROP SCHEMA timeout CASCADE)`", PAGE)
    viewings.run(dropping)
    before = viewings.shape()
    viewings.run(BEHIND_VIEWS.sql[BEHIND_VIEWS.sql.index("CREATE SCHEMA timeout") :])
    viewings.adopt()
    viewings.run(dropping)
    viewings.run(LEAVE[LEAVE.index("DROP INDEX") :].replace("booking.", "calendar."))
    assert viewings.shape() == before


def test_the_view_of_the_page_is_one_that_is_tested() -> None:
    assert VIEW in BEHIND_VIEWS.sql


def test_the_page_names_every_column_that_is_wanted() -> None:
    table = PAGE.partition("## What your tables must have")[2].partition("## Step by step")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert {column for columns in WANTED.values() for column in columns} <= named
