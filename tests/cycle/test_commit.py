"""A commit that takes the next claim along: either can fail, and which one did is told apart."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine

from app import facts, prepared
from app.domain.booking import Booking
from app.store import claims, rows
from app.store.runs import Outcome
from tests.gate import PATIENCE, gate
from tests.neighbour import Neighbour, holding, wait_for_a_waiter, wait_until
from tests.world import HOUR, MINUTE, World

FAILED_BEFORE = """INSERT INTO calendar.expiry_failures
    (appointment_id, rule, first_failed_at, last_failed_at, last_run_id)
    VALUES (:id, 'mended since', now() - interval '1 hour', now() - interval '1 hour', 'earlier')"""
CLAIM_IN_VAIN = """SELECT pid FROM pg_stat_activity WHERE datname = current_database()
    AND wait_event_type = 'Lock' AND query LIKE 'COMMIT AND CHAIN%'"""
REFUSED_AT_COMMIT = """
CREATE FUNCTION calendar.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not today' USING ERRCODE = '23514'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON calendar.appointments
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.id = '{appointment}') EXECUTE FUNCTION calendar.refuse();
"""


def test_c4_a_commit_that_is_refused_costs_its_item_only(world: World) -> None:
    made = [world.appointment(expires_in=-(20 - n) * MINUTE) for n in range(5)]
    world.execute(REFUSED_AT_COMMIT.format(appointment=made[1].appointment))
    before = world.state(made[1])
    report = world.run(connections=1)
    assert (report.outcome, report.expired, report.failed) == (Outcome.COMPLETED, 4, 1)
    assert world.state(made[1]) == before
    assert world.failures()[made[1].appointment]["sqlstate"] == "23514"
    assert len(world.messages()) == 2 * 4


def test_c4_one_that_failed_before_has_its_try_though_the_commit_before_it_was_refused(
    world: World,
) -> None:
    """Its turn comes along with that commit: of two, the second is for those that failed."""
    refused, again = world.appointment(expires_in=-HOUR), world.appointment()
    world.execute(FAILED_BEFORE, id=again.appointment)
    world.execute(REFUSED_AT_COMMIT.format(appointment=refused.appointment))
    report = world.run(connections=1, batch_size=2)
    assert (report.outcome, report.expired, report.failed) == (Outcome.COMPLETED, 1, 1)
    assert world.status(again) == "Expired"
    assert list(world.failures()) == [refused.appointment]


@pytest.mark.parametrize("lost", [False, True])
def test_c5_what_was_committed_counts_though_the_claim_that_went_along_failed(
    world: World, engine: Engine, *, lost: bool
) -> None:
    """Somebody waits to lock a table that claims read, and gets it with the commit.

    The claim waits for him in vain, or its connection is lost meanwhile.
    """
    made = [world.appointment(expires_in=-(20 - n) * MINUTE) for n in range(3)]
    reported = threading.Event()

    def lock() -> None:
        with holding(engine, "LOCK TABLE calendar.expiry_failures"):
            assert reported.wait(PATIENCE)

    with gate(engine, "COMMIT AND CHAIN") as before_the_commit:
        cycle = Neighbour(lambda: world.run(connections=1))
        before_the_commit.wait_reached()
        locker = Neighbour(lock)
        wait_for_a_waiter(engine)
        before_the_commit.release()
        if lost:
            wait_until(lambda: world.all(CLAIM_IN_VAIN), "the claim does not wait")
            world.execute(f"SELECT pg_terminate_backend(pid) FROM ({CLAIM_IN_VAIN}) claiming")
        report = cycle.result()
    reported.set()
    locker.result()
    assert (report.outcome, report.expired, report.failed) == (Outcome.FAILED, 1, 0)
    told = "PostgreSQL cannot be reached" if lost else "PostgreSQL refused the work"
    assert str(report.detail).startswith(told)
    assert [world.status(one) for one in made] == ["Expired", "Pending", "Pending"]
    assert len(world.messages()) == 2
    assert world.run().expired == 2


def test_c4_an_error_before_the_commit_in_the_same_message_is_no_expiry(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when somebody cancels it in that moment: a transaction is open and broken, the old one."""
    made = [world.appointment() for _ in range(3)]
    monkeypatch.setattr(prepared, "COMMIT_AND", f"SELECT 1/0; {prepared.COMMIT_AND}")
    heard: list[facts.Fact] = []
    report = world.run(connections=1, tell=heard.append)
    told = {fact.appointment_id for fact in heard if isinstance(fact, facts.AppointmentExpired)}
    expired = {one.appointment for one in made if world.status(one) == "Expired"}
    assert (told, len(told)) == (expired, report.expired)
    assert (report.outcome, report.failed) == (Outcome.COMPLETED, 3 - len(expired))
    assert report.failed > 0


def test_s5_a_turn_that_was_taken_for_a_refused_commit_is_not_used_after_a_stop(
    world: World,
) -> None:
    refused, other = world.appointment(expires_in=-HOUR), world.appointment()
    world.execute(REFUSED_AT_COMMIT.format(appointment=refused.appointment))
    heard: list[facts.Fact] = []
    report = world.run(
        connections=1,
        tell=heard.append,
        stopping=lambda: any(isinstance(fact, facts.ItemFailed) for fact in heard),
    )
    assert (report.outcome, report.expired, report.failed) == (Outcome.STOPPED, 0, 1)
    assert world.status(other) == "Pending"


def test_c5_what_was_committed_counts_though_what_went_along_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [world.appointment(expires_in=-(20 - n) * MINUTE) for n in range(3)]
    came = 0

    def read_but_the_second(row: Sequence[Any]) -> Booking:
        nonlocal came
        came += 1
        if came == 2:
            raise ValueError("nobody thought of this")
        return rows.booking(row)

    monkeypatch.setattr(claims, "booking", read_but_the_second)
    with pytest.raises(ValueError, match="nobody thought of this"):
        world.run(connections=1)
    assert [world.status(one) for one in made] == ["Expired", "Pending", "Pending"]
    assert not world.failures()
    kept = world.one("SELECT outcome, result ->> 'ExpiredCount' AS expired FROM calendar.job_runs")
    assert kept == {"outcome": "failed", "expired": "1"}
