"""Plans that odd data could spoil: many failures, dead entries, writes (D3); see tests/scale."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest
from sqlalchemy import Connection, Engine, text

from app.socket_timeout import TimedConnection
from app.store import claims, endings, failures, status
from tests.world import World

ROWS = 50_000
PENDING_EVERY = 100
BUFFERS = 100

FILL = """
INSERT INTO calendar.availability_slots (id, tenant_id, agent_id, status, start_at, end_at)
SELECT md5(n::text)::uuid, gen_random_uuid(), gen_random_uuid(), 'Booked', now(), now()
FROM generate_series(1, :rows) n;
INSERT INTO calendar.calendar_events (id, tenant_id, start_at, end_at)
SELECT md5(n::text)::uuid, gen_random_uuid(), now(), now() FROM generate_series(1, :rows) n;
INSERT INTO calendar.event_reminders (calendar_event_id, remind_at)
SELECT md5(n::text)::uuid, now() FROM generate_series(1, :rows) n;
INSERT INTO calendar.appointments (id, tenant_id, slot_id, calendar_event_id, investor_id,
    agent_id, status, pending_expires_at)
SELECT md5(n::text)::uuid, gen_random_uuid(), md5(n::text)::uuid, md5(n::text)::uuid,
    gen_random_uuid(), gen_random_uuid(),
    CASE WHEN n % :every = 0 THEN 'Pending' ELSE 'Confirmed' END,
    now() - n * interval '1 minute'
FROM generate_series(1, :rows) n;
"""


@pytest.fixture
def filled(engine: Engine) -> Engine:
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))  # no triggers
        connection.execute(text("SET LOCAL statement_timeout = '60s'"))
        for statement in FILL.strip().split(";")[:-1]:
            connection.execute(text(statement), {"rows": ROWS, "every": PENDING_EVERY})
    engine.dispose()
    return engine


def analyze(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def plan_of(connection: Connection, call: str) -> dict[str, Any]:
    """After ten executions on one connection, as in a long cycle."""
    for _ in range(10):
        connection.exec_driver_sql(call)
        connection.rollback()
    shown = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call}").scalar()
    connection.rollback()
    assert shown is not None
    found: dict[str, Any] = shown[0]["Plan"]
    return found


def buffers(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


NEXT = "EXECUTE claim_next (now(), '-infinity', '00000000-0000-0000-0000-000000000000')"


def test_d3_a_claim_that_may_not_be_prepared_goes_by_the_partial_index_too(filled: Engine) -> None:
    """Behind a pooler: planned anew each time, its values known."""
    with filled.connect() as connection:
        cursor = cast("TimedConnection", connection.connection.dbapi_connection).cursor()
        for as_of, bound in ((datetime.now(UTC), BUFFERS), (datetime(2001, 1, 1, tzinfo=UTC), 10)):
            values = {"as_of": as_of, "after_at": "-infinity", "after_id": UUID(int=0)}
            plan = plan_of(connection, cursor.mogrify(claims.CLAIM_NEXT._whole, values).decode())
            kinds = {node["Node Type"] for node in nodes(plan)}
            used = {node.get("Index Name") for node in nodes(plan)}
            assert "ix_appointments_pending_expires_at" in used
            assert not kinds & {"Sort", "Seq Scan", "Bitmap Heap Scan", "Hash Join"}
            assert buffers(plan) <= bound, plan


def test_s3_the_look_at_earlier_failures_stays_a_probe_when_they_become_many(
    filled: Engine, world: World
) -> None:
    """A plan made while nothing had ever failed is kept by its connection."""
    analyze(filled)
    with filled.connect() as connection:
        claims.CLAIM_NEXT.prepare(connection)
        connection.commit()
        plan_of(connection, NEXT)
        poison = ROWS // PENDING_EVERY - 10
        world.execute(
            """INSERT INTO calendar.expiry_failures
                (appointment_id, rule, first_failed_at, last_failed_at, last_run_id)
            SELECT id, 'odd', now(), now(), 'run' FROM calendar.appointments
            WHERE status = 'Pending' ORDER BY pending_expires_at LIMIT :poison""",
            poison=poison,
        )
        plan = plan_of(connection, NEXT)
    assert buffers(plan) <= BUFFERS + 8 * poison, buffers(plan)


def test_d3_dead_entries_in_front_of_the_oldest_are_passed_once_a_cycle(filled: Engine) -> None:
    """Not by each connection: an old snapshot keeps them all."""
    with filled.connect() as elder, filled.connect() as connection:
        elder.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        elder.execute(text("SELECT 1"))
        gone = ROWS // PENDING_EVERY - 50
        connection.execute(
            text(
                """UPDATE calendar.appointments SET status = 'Declined' WHERE id IN (
                    SELECT id FROM calendar.appointments WHERE status = 'Pending'
                    ORDER BY pending_expires_at LIMIT :gone)"""
            ),
            {"gone": gone},
        )
        connection.commit()
        first = claims.open_cycle(connection, 200).before_first
        claims.CLAIM_NEXT.prepare(connection)
        connection.commit()
        bound = f"'{first.pending_expires_at}'"
        plan = plan_of(connection, NEXT.replace("'-infinity'", bound))
        assert buffers(plan_of(connection, NEXT)) > gone
    assert plan["Actual Rows"] == 1
    assert buffers(plan) <= BUFFERS, plan


def test_the_write_goes_by_keys(filled: Engine, world: World) -> None:
    made = world.appointment()
    with filled.connect() as connection:
        for statement in (claims.CLAIM_ONE, endings.SAVE_ENDING):
            statement.prepare(connection)
        connection.commit()
        id_, payload = f"'{made.appointment}'", "'{}'"
        values = ", ".join(
            ["now()", id_, "2", "'Expired'", "NULL", f"'{made.slot}'", "2", "'Available'"]
            + [f"'{made.event}'", "2", "'Cancelled'", "'reason'"]
            + ["gen_random_uuid()", "'topic'", "'key'", payload, payload] * 2
        )
        shown = connection.exec_driver_sql(
            f"EXPLAIN (FORMAT JSON) EXECUTE save_ending ({values})"
        ).scalar()
        assert shown is not None
        connection.rollback()
    kinds = {node["Node Type"] for node in nodes(shown[0]["Plan"])}
    assert not kinds & {"Sort", "Seq Scan", "Bitmap Heap Scan", "Hash Join"}


def test_those_that_failed_before_come_longest_untried_first(world: World) -> None:
    made = [world.appointment(slot_status="Available") for _ in range(3)]
    for age, one in zip((1, 3, 2), made, strict=True):
        world.execute(
            """INSERT INTO calendar.expiry_failures
                (appointment_id, rule, first_failed_at, last_failed_at, last_run_id)
            VALUES (:id, 'odd', now(), now() - make_interval(hours => :age), 'run')""",
            id=one.appointment,
            age=age,
        )
    with world.engine.begin() as connection:
        found = failures.failed_before(connection, world.now())
    assert found == [made[1].appointment, made[2].appointment, made[0].appointment]


def test_a_look_at_the_state_reads_no_table_as_a_whole(filled: Engine) -> None:
    """Section 8: capped counts and first rows, whatever the statistics say."""
    with filled.connect() as connection:
        sent = str(status.LOOK).replace(":cap", "100000")
        plan = plan_of(connection, sent)
    whole = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
    assert whole <= {"brake", "expiry_failures"}  # one row; none, as long as nothing has failed
    assert "ix_appointments_pending_expires_at" in {node.get("Index Name") for node in nodes(plan)}
    assert buffers(plan) <= BUFFERS + ROWS // PENDING_EVERY * 2, plan
