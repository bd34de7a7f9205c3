"""What is overdue beyond the SLO is a warning with its cause (section 9)."""

import pytest

from app import audit
from app.audit import AuditOptions
from app.store import brake
from tests.audit.lawful import LawfulWorld
from tests.neighbour import holding

[CHECK] = [check for check in audit.CHECKS if check.name == "expired-in-time"]
OVERDUE = """UPDATE calendar.appointments SET created_at = now() - interval '2 h',
    pending_expires_at = now() - interval '1 h' WHERE id = :a"""


@pytest.fixture
def overdue(lawful: LawfulWorld) -> LawfulWorld:
    """One that waits for an hour."""
    lawful.plant(OVERDUE, **lawful.ids("pending"))
    return lawful


def cause(overdue: LawfulWorld) -> str:
    [found] = overdue.audit([CHECK])
    assert (found.severity, found.id) == ("warning", str(overdue.names["pending"].id))
    return found.found.removeprefix("overdue for 3600 s: ")


def cycle(overdue: LawfulWorld, outcome: str, ago: str) -> None:
    overdue.execute("DELETE FROM calendar.job_runs")
    overdue.execute(
        """INSERT INTO calendar.job_runs (run_id, job, as_of, started_at, outcome)
        VALUES ('run', 'appointment_timeout', now() - CAST(:ago AS interval), now(), :outcome)""",
        ago=ago,
        outcome=outcome,
    )


def test_no_cycle_has_succeeded_since_it_was_due(overdue: LawfulWorld) -> None:
    for outcome, ago in (("completed", "61 min"), ("failed", "1 min"), ("skipped", "1 min")):
        cycle(overdue, outcome, ago)
        assert cause(overdue) == "no cycle has succeeded since", (outcome, ago)
    overdue.execute("DELETE FROM calendar.job_runs")
    assert cause(overdue) == "no cycle has succeeded since"
    overdue.execute(
        """INSERT INTO calendar.job_runs (run_id, job, as_of, started_at, outcome)
        VALUES ('drain', 'outbox_publisher', now(), now(), 'completed')"""
    )
    assert cause(overdue) == "no cycle has succeeded since"


def test_cycles_succeed_but_have_not_come_to_it(overdue: LawfulWorld) -> None:
    for outcome in ("completed", "cut_short"):
        cycle(overdue, outcome, "59 min")
        assert cause(overdue) == "more are due than the cycles since could take"


def test_it_is_poison(overdue: LawfulWorld) -> None:
    overdue.execute(
        """INSERT INTO calendar.expiry_failures
            (appointment_id, rule, first_failed_at, last_failed_at, attempts, last_run_id)
        VALUES (:a, 'slot: found Available, wanted Booked', now(), now(), 7, 'run')""",
        a=overdue.names["pending"].id,
    )
    assert cause(overdue) == "poison, 7 times: slot: found Available, wanted Booked"


def test_the_brake_is_on(overdue: LawfulWorld) -> None:
    with overdue.engine.begin() as connection:
        brake.pull(connection, "a bad import", "a human")
    assert cause(overdue) == "the brake is on"
    with overdue.engine.begin() as connection:
        brake.release(connection)
    assert cause(overdue) != "the brake is on"


@pytest.mark.parametrize("table", ["appointments", "availability_slots", "calendar_events"])
def test_a_backend_holds_it_or_a_part_of_it(overdue: LawfulWorld, table: str) -> None:
    ids = overdue.ids("pending")
    row = {"appointments": "a", "availability_slots": "s", "calendar_events": "e"}[table]
    with holding(
        overdue.engine,
        f"SELECT FROM calendar.{table} WHERE id = :row FOR UPDATE",
        row=ids[row],
    ) as holder:
        pid = holder.connection.dbapi_connection.info.backend_pid  # type: ignore[union-attr]
        assert cause(overdue) == f"held by backend {pid}"
    assert "held" not in cause(overdue)


def test_the_slo_follows_the_settings(overdue: LawfulWorld) -> None:
    """t + interval + the cycle's duration."""
    assert overdue.audit([CHECK], AuditOptions(interval_seconds=3600)) == []
    assert overdue.audit([CHECK], AuditOptions(max_duration_seconds=3600)) == []
