"""The brake: pulled by a human or by its limits, obeyed between items, visible everywhere."""

import json
import os
import subprocess
import sys

import pytest
from sqlalchemy import Engine

from app import facts
from app.store import brake
from app.store.brake import BrakeLimits
from app.store.runs import Job, Outcome
from dev.servers.postgres import Postgres
from tests.gate import gate
from tests.neighbour import Neighbour
from tests.world import HOUR, World


def pull(world: World, reason: str = "bad import") -> None:
    with world.engine.begin() as connection:
        brake.pull(connection, reason, "the night shift")


def release(world: World) -> bool:
    with world.engine.begin() as connection:
        return brake.release(connection)


def test_while_it_is_on_no_appointment_expires_and_each_tick_says_why(world: World) -> None:
    made = world.appointment()
    before = world.state(made)
    pull(world)
    heard: list[facts.Fact] = []
    report = world.run(tell=heard.append)
    assert (report.outcome, report.expired) == (Outcome.SKIPPED, 0)
    assert world.state(made) == before
    assert report.detail is not None
    assert "by the night shift: bad import" in report.detail
    assert heard == [facts.TickSkipped(Job.APPOINTMENT_TIMEOUT, report.detail)]
    kept = world.one("SELECT outcome, detail FROM calendar.job_runs")
    assert kept == {"outcome": "skipped", "detail": report.detail}
    assert release(world)
    assert world.run().expired == 1


def test_a_running_cycle_obeys_it_between_items(world: World, engine: Engine) -> None:
    made = [world.appointment() for _ in range(10)]
    with gate(engine, "EXECUTE save_ending") as in_the_first_item:
        cycle = Neighbour(lambda: world.run(connections=1))
        in_the_first_item.wait_reached()
        pull(world)
        with gate(engine, "EXECUTE claim_next", times=1) as before_the_second:
            in_the_first_item.release()
            before_the_second.wait_reached()
            wait_for_a_look(world)
            before_the_second.release()
            report = cycle.result()
    assert (report.outcome, report.detail) == (Outcome.STOPPED, str(report.detail))
    assert "bad import" in str(report.detail)
    assert 1 <= report.expired <= 2
    assert [world.status(one) for one in made].count("Pending") >= 8


def wait_for_a_look(world: World) -> None:
    """Return when the cycle has asked for the brake since now."""
    from tests.neighbour import wait_until  # noqa: PLC0415

    before = looks(world)
    wait_until(lambda: looks(world) >= before + 2, "the cycle's look at the brake")


def looks(world: World) -> int:
    return int(
        world.one(
            """SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) AS n
            FROM pg_stat_user_tables WHERE relname = 'brake'"""
        )["n"]
    )


def test_a_second_pull_keeps_the_first_reason(world: World) -> None:
    pull(world, "first")
    pull(world, "second")
    assert world.one("SELECT reason FROM calendar.brake")["reason"] == "first"
    assert release(world)
    assert not release(world)
    pull(world, "third")
    assert world.one("SELECT reason FROM calendar.brake")["reason"] == "third"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (BrakeLimits(overdue=2), "more than 2 appointments are overdue"),
        (BrakeLimits(oldest_seconds=1800), "the oldest is overdue for more than 1800 s"),
    ],
)
def test_beyond_its_limits_it_pulls_itself_and_a_human_decides(
    world: World, limits: BrakeLimits, reason: str
) -> None:
    for _ in range(3):
        world.appointment(expires_in=-HOUR)
    report = world.run(brake=limits)
    assert report.outcome is Outcome.SKIPPED
    assert reason in str(report.detail)
    assert release(world)
    assert world.run(brake=limits).expired == 3, "released by a human, it is not pulled at once"
    assert world.run(brake=limits).outcome is Outcome.COMPLETED
    for _ in range(3):
        world.appointment(expires_in=-HOUR)
    assert world.run(brake=limits).outcome is Outcome.SKIPPED, "armed again by a quiet cycle"


def test_within_its_limits_nothing_is_pulled(world: World) -> None:
    for _ in range(2):
        world.appointment()
    assert world.run(brake=BrakeLimits(overdue=2, oldest_seconds=1800)).expired == 2


def test_one_command_pulls_it_status_shows_it_and_one_releases_it(
    world: World, postgres: Postgres, database_name: str
) -> None:
    def app(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            env={**os.environ, "DATABASE_URL": postgres.url(database_name)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    world.appointment()
    assert "No appointment expires now" in app("pause", "--reason", "bad import")
    assert "bad import" in app("status")
    assert json.loads(app("status", "--json"))["brake"]["reason"] == "bad import"
    assert world.run().expired == 0
    assert "The brake is off" in app("resume")
    assert "was not on" in app("resume")
    assert json.loads(app("status", "--json"))["brake"] is None
    assert world.run().expired == 1
