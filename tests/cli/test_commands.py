"""The operator's commands, as an operator runs them: exit codes, JSON, one plain sentence."""

import json
import subprocess
from collections.abc import Callable
from uuid import uuid4

import pytest

from dev.bench.starts import COMMANDS, not_needed
from tests.world import World

App = Callable[..., subprocess.CompletedProcess[str]]


def test_migrate_is_idempotent_and_says_so(app: App) -> None:
    assert "nothing to do" in app("migrate").stdout


def test_migrate_goes_back_and_forth(app: App) -> None:
    assert "from revision 0002 to 0001" in app("migrate", "--back-to", "0001").stdout
    assert "python -m app migrate" in app("status", code=1).stderr
    assert "from revision 0001 to 0002" in app("migrate").stdout
    app("status")


def test_an_unknown_revision_is_one_sentence(app: App) -> None:
    told = app("migrate", "--back-to", "nowhere", code=1).stderr
    assert "nowhere" in told
    assert "Traceback" not in told


def test_sample_books_through_the_law_and_some_are_overdue(app: App, world: World) -> None:
    told = app("sample", "--count", "20").stdout
    assert "20 appointments booked" in told
    statuses = world.all("SELECT status, count(*) AS n FROM calendar.appointments GROUP BY 1")
    assert {row["status"]: row["n"] for row in statuses} == {"Pending": 18, "Confirmed": 2}
    report = world.run()
    assert report.released > 0
    assert report.slots_expired > 0
    assert report.failed == 0


def test_status_tells_backlog_poison_with_reasons_outbox_and_last_success(
    app: App, world: World
) -> None:
    poison = world.appointment(slot_status="Available")
    world.appointment()
    world.run()
    in_line = world.appointment()
    found = json.loads(app("status", "--json").stdout)
    assert (found["backlog"], found["poison"], found["outbox_backlog"]) == (2, 1, 2)
    assert found["oldest_overdue_seconds"] > 0
    assert found["last_successful_cycle"] is not None
    [item] = found["poison_items"]
    assert item["appointment_id"] == str(poison.appointment)
    assert item["rule"] == "slot: found Available, wanted Booked"
    assert [item["appointment_id"] for item in found["overdue_items"]] == [str(in_line.appointment)]
    shown = app("status").stdout
    for word in (str(poison.appointment), "found Available", str(in_line.appointment)):
        assert word in shown


def test_runs_lists_the_last_and_shows_one(app: App, world: World) -> None:
    assert "No run is kept yet" in app("runs").stdout
    run_id = str(uuid4())
    world.appointment()
    world.run(run_id)
    listed = app("runs").stdout
    assert run_id in listed
    assert "Expired 1, SlotsReleased 1" in listed
    one = json.loads(app("runs", run_id, "--json").stdout)
    assert (one["outcome"], one["result"]["ExpiredCount"]) == ("completed", 1)
    assert json.loads(app("runs", "--json", "--count", "1").stdout)[0]["run_id"] == run_id
    assert "No run nobody is kept" in app("runs", "nobody", code=1).stderr


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"DATABASE_URL": ""}, "DATABASE_URL is not set."),
        ({"DATABASE_URL": "mysql://x/y"}, "DATABASE_URL is wrong: it must begin with postgresql:"),
        (
            {"DATABASE_URL": "postgresql://u:s3cret@127.0.0.1:1/x"},
            "PostgreSQL cannot be reached",
        ),
    ],
)
def test_bad_input_is_one_sentence_without_a_secret(
    app: App, variables: dict[str, str], sentence: str
) -> None:
    told = app("status", code=1, **variables).stderr
    assert told.startswith(sentence)
    assert len(told.splitlines()) == 1
    assert "s3cret" not in told


@pytest.mark.parametrize(
    "arguments",
    [
        ("sample", "--count", "none"),
        ("sample", "--count", "0"),
        ("nothing",),
        ("outbox", "requeue"),
        ("outbox", "discard", "not-an-id"),
        ("outbox", "requeue", "--all", "--topic", "x"),
    ],
)
def test_wrong_usage_ends_with_two_and_changes_nothing(
    app: App, world: World, arguments: tuple[str, ...]
) -> None:
    app(*arguments, code=2)
    assert world.all("SELECT FROM calendar.appointments") == []


@pytest.mark.parametrize("command", [(), ("sample",), ("status",), ("runs",), ("outbox", "list")])
def test_help_explains_each_command(app: App, command: tuple[str, ...]) -> None:
    assert "Usage: python -m app" in app(*command, "--help").stdout


EVERY = (*COMMANDS, ("outbox", "requeue"), ("outbox", "discard"), ("resume",), ("sample",), ())


@pytest.mark.parametrize("command", EVERY)
def test_help_imports_nothing_that_only_the_work_needs(command: tuple[str, ...]) -> None:
    assert not_needed(command) == []


def test_health_tells_by_effect_whether_work_can_be_done_and_is_done(
    app: App, world: World
) -> None:
    assert "Ready" in app("health").stdout
    assert "No cycle has ever ended here" in app("health", "--live", code=1).stderr
    world.run()
    assert "being done" in app("health", "--live").stdout
    world.execute("""UPDATE calendar.job_runs SET started_at = now() - interval '1 hour',
        finished_at = now() - interval '1 hour'""")
    assert "No cycle has ended for 36" in app("health", "--live", code=1).stderr
    assert (
        "cannot be reached" in app("health", code=1, DATABASE_URL="postgresql://h.invalid/x").stderr
    )
