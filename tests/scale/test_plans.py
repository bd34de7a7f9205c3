"""Plans at two million rows, of the statements really sent, whatever the statistics say (D3)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from app.publish import drain
from app.report import DrainOptions
from app.retention import RetentionOptions, sweep
from app.store import claims, failures, status
from app.store.brake import BrakeLimits
from dev.servers.mock_kafka import MockKafka
from tests.neighbour import holding
from tests.publish.outbox_world import OutboxWorld, sender_to
from tests.scale.conftest import OVERDUE, ROWS
from tests.scale.plans import Plan, explained
from tests.scale.statistics import STATISTICS, believe
from tests.world import World

BATCH = 200
PAGES_PER_ROW = 40
"""A generous bound: some index pages for each look, and the row itself, locked or written."""
TOPIC = "waiting"
ALMOST_NO_LIMITS = BrakeLimits(1_000_000, 1e9)

PENDING = "ix_appointments_pending_expires_at"
WAITING = "ix_outbox_messages_waiting"
UNSENT = "ix_outbox_messages_unsent_by_key"
PUBLISHED = "ix_outbox_messages_published_at"

whatever_the_statistics = pytest.mark.parametrize("statistics", STATISTICS)


def bounded(plans: Sequence[Plan], table: str, rows: int) -> set[str]:
    """Each plan touches so many rows of it, in their order, and few pages; by which indexes."""
    assert plans
    for plan in plans:
        assert plan.rows(table) <= rows, plan
        assert plan.sorted_rows <= rows, plan
        assert plan.buffers <= rows * PAGES_PER_ROW, (plan.buffers, plan)
    return set().union(*(plan.scans(table) for plan in plans))


def of(plans: Sequence[Plan], words: str) -> list[Plan]:
    return [plan for plan in plans if words in plan.statement]


@whatever_the_statistics
def test_d3_a_cycle_takes_its_batch_by_the_partial_index(crowded: World, statistics: str) -> None:
    believe(crowded, statistics)
    with explained(crowded.engine) as plans:
        done = crowded.run(batch_size=BATCH, brake=ALMOST_NO_LIMITS, connections=1)
        assert done.expired == BATCH
    for opening in ("AS due", "appointments are overdue"):
        assert bounded(of(plans, opening), "appointments", OVERDUE) == {PENDING}
    bounded(of(plans, "AS due"), "appointments", BATCH)
    bounded(of(plans, "PREPARE claim_next"), "appointments", 1)
    bounded(of(plans, "PREPARE save_ending"), "appointments", 2)
    assert not set().union(*(plan.scans("outbox_messages") for plan in plans))


@whatever_the_statistics
def test_c4_those_that_failed_before_are_found_by_their_keys(
    crowded: World, statistics: str
) -> None:
    believe(crowded, statistics)
    crowded.execute("DELETE FROM calendar.expiry_failures")
    [row] = crowded.all(
        """INSERT INTO calendar.expiry_failures
            (appointment_id, rule, first_failed_at, last_failed_at, last_run_id)
        SELECT id, 'odd', now(), now(), 'run' FROM calendar.appointments
        WHERE status = 'Pending' ORDER BY pending_expires_at LIMIT 1 RETURNING appointment_id"""
    )
    with (
        holding(
            crowded.engine,
            "SELECT FROM calendar.appointments WHERE id = :id FOR UPDATE",
            id=row["appointment_id"],
        ),
        explained(crowded.engine) as plans,
    ):
        assert crowded.run(batch_size=2).skipped_locked == 1
    assert bounded(of(plans, "PREPARE claim_one"), "appointments", 5) >= {"appointments_pkey"}
    bounded(of(plans, ") + ("), "appointments", 5)


@whatever_the_statistics
def test_d3_where_nothing_is_overdue_a_handful_of_pages_is_read(
    crowded: World, statistics: str
) -> None:
    believe(crowded, statistics)
    with explained(crowded.engine) as plans, crowded.engine.begin() as connection:
        claims.CLAIM_NEXT.prepare(connection)
        long_ago = datetime(2001, 1, 1, tzinfo=UTC)
        assert claims.claim(connection, claims.Wanted(long_ago, claims.START)) is None
    [plan] = of(plans, "PREPARE claim_next")
    assert PENDING in plan.scans("appointments")
    assert (plan.rows("appointments"), plan.buffers < 10) == (0, True)


@whatever_the_statistics
def test_c4_a_failure_is_kept_by_its_appointments_key(crowded: World, statistics: str) -> None:
    believe(crowded, statistics)
    crowded.execute("DELETE FROM calendar.expiry_failures")
    with explained(crowded.engine) as plans, crowded.engine.connect() as connection:
        failure = failures.Failure("odd")
        failures.record(connection, UUID(int=OVERDUE), failure, crowded.now(), "run")
        assert failures.failed_before(connection, crowded.now()) == [UUID(int=OVERDUE)]
    assert bounded(of(plans, "AS kept"), "appointments", 1) == {"appointments_pkey"}


@whatever_the_statistics
def test_o1_a_drain_takes_its_batches_by_the_index_of_the_waiting(
    crowded: World, statistics: str
) -> None:
    believe(crowded, statistics)
    outbox = OutboxWorld(crowded.engine, TOPIC)
    outbox.add_all([str(number % 300) for number in range(5 * BATCH)])
    with MockKafka({TOPIC: 1}) as mock:
        sender = sender_to(mock.bootstrap)
        with explained(crowded.engine) as plans:
            report = drain(crowded.engine, sender, DrainOptions(batch_size=BATCH), str(uuid4()))
        sender.close()
    assert (report.outcome, report.published) == ("completed", 5 * BATCH), report.detail
    assert bounded(of(plans, "WITH claimed"), "outbox_messages", BATCH) == {WAITING, UNSENT}
    marks = of(plans, "SET published_at")
    assert bounded(marks, "outbox_messages", BATCH) == {"outbox_messages_pkey"}


@whatever_the_statistics
def test_o5_retention_finds_the_oldest_by_its_index(crowded: World, statistics: str) -> None:
    believe(crowded, statistics)
    days = crowded.one(
        """SELECT extract(epoch FROM now() - published_at)::float / 86400 AS of_the_hundredth
        FROM calendar.outbox_messages WHERE published_at IS NOT NULL
        ORDER BY published_at OFFSET 100 LIMIT 1"""
    )["of_the_hundredth"]
    with explained(crowded.engine) as plans:
        removed = sweep(crowded.engine, RetentionOptions(outbox_days=days))
    assert 100 <= removed["OutboxMessagesRemoved"] < 5_000
    indexes = bounded(of(plans, "published_at < now()"), "outbox_messages", 5_000)
    assert indexes == {PUBLISHED, "outbox_messages_pkey"}


@whatever_the_statistics
def test_a_look_at_the_state_counts_on_the_partial_indexes(crowded: World, statistics: str) -> None:
    """Section 8."""
    believe(crowded, statistics)
    with explained(crowded.engine) as plans, crowded.engine.begin() as connection:
        assert status.read(connection).backlog > 0
        assert len(status.overdue(connection, 20)) == 20
    every = {index for plan in plans for index in plan.scans("appointments")}
    assert every == {PENDING}
    [look] = of(plans, "extract(epoch")
    assert look.scans("outbox_messages") <= {WAITING, UNSENT, "ix_outbox_messages_refused"}
    assert look.buffers < ROWS / 100


def test_what_is_believed_is_what_the_planner_goes_by(crowded: World) -> None:
    """Or the tests above would have looked at the same plan five times."""
    believed = {}
    for statistics in STATISTICS:
        believe(crowded, statistics)
        believed[statistics] = estimate(crowded.engine)
    assert believed["stale, all pending"] > 100 * believed["stale, none pending"]
    assert len(set(believed.values())) == len(STATISTICS)


def estimate(engine: Engine) -> int:
    with engine.begin() as connection:
        [[plan]] = connection.exec_driver_sql(
            """EXPLAIN (FORMAT JSON) SELECT FROM calendar.appointments
            WHERE status = 'Pending' AND cancelled_by IS NULL"""
        ).scalars()
        return int(plan["Plan"]["Plan Rows"])
