"""Adoption beside live traffic: nobody waits long, and what was interrupted is finished later."""

import os
import signal
import subprocess
import sys

import pytest

from app import schema
from app.adoption import work
from app.adoption.needs import FORGETS
from tests.adoption.team import Team
from tests.neighbour import Neighbour, holding, wait_for_a_waiter, wait_until


def test_two_who_adopt_at_once_take_turns(team: Team) -> None:
    done = [Neighbour(team.adopt) for _ in range(3)]
    assert sorted(len(one.result()) for one in done) == [0, 0, 6]


def test_a_table_in_use_is_not_queued_for_and_what_was_done_stays(
    in_place: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(work, "TRIES", 2)
    monkeypatch.setattr(work, "_PAUSE", 0)
    in_place.adopt()
    in_place.run(f"DROP TRIGGER {FORGETS[0]} ON booking.appointments")
    made = in_place.book()
    with holding(
        in_place.engine(),
        "UPDATE calendar.appointments SET note = 'held' WHERE id = :id",
        id=made.appointment,
    ):
        with pytest.raises(schema.SchemaError, match="keeps a table locked"):
            in_place.adopt()
        in_place.run(
            "SET lock_timeout = '1s'; UPDATE booking.appointments SET note = note WHERE false"
        )
    assert len(in_place.adopt()) == 1


def test_who_writes_is_not_kept_waiting_while_an_index_is_built(in_place: Team) -> None:
    """CREATE INDEX CONCURRENTLY waits for open transactions, and nobody waits for it."""
    made = in_place.book()
    with holding(
        in_place.engine(),
        "UPDATE calendar.appointments SET note = 'held' WHERE id = :id",
        id=made.appointment,
    ):
        adopting = Neighbour(in_place.adopt)
        wait_for_a_waiter(in_place.engine())
        in_place.run("SET lock_timeout = '5s'")
        in_place.book()
    assert len(adopting.result()) == 6


def test_without_the_last_step_no_worker_begins(in_place: Team) -> None:
    """A worker looks for the schema's level, which comes with our tables, all at once."""
    in_place.run(
        """CREATE FUNCTION booking.forget_expiry_failure() RETURNS int LANGUAGE sql
        AS 'SELECT 1'"""
    )
    in_place.book()
    with pytest.raises(Exception, match="already exists"):
        in_place.adopt()
    assert "schema_level" not in in_place.shape()
    assert "app migrate" in str(in_place.world().run().detail)
    in_place.run("DROP FUNCTION booking.forget_expiry_failure")
    in_place.adopt()
    assert in_place.world().run().expired == 1


BUILDING = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE 'CREATE INDEX%' AND state = 'active'"""


def test_ctrl_c_ends_it_and_the_next_one_finishes_what_is_left(in_place: Team) -> None:
    """While it waits for a transaction in the way of its index."""
    made = in_place.book()
    with holding(
        in_place.engine(),
        "UPDATE calendar.appointments SET note = 'held' WHERE id = :id",
        id=made.appointment,
    ):
        command = [sys.executable, "-m", "app", "migrate", "--adopt"]
        given = {**os.environ, "DATABASE_URL": in_place.url, "DATABASE_SCHEMA": "booking"}
        with subprocess.Popen(command, env=given, stderr=subprocess.PIPE, text=True) as process:
            wait_for_a_waiter(in_place.engine())
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Traceback" not in said
        wait_until(lambda: in_place.run(BUILDING) == [(0,)], "PostgreSQL misses its client")
    assert in_place.adopt()[0].startswith("DROP INDEX CONCURRENTLY")
    assert in_place.look().steps == ()
