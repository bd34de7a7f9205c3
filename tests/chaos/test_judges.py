"""The judges can see: each violation is planted once, and found."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from app import operations
from app.store import bookings
from dev.chaos import audit, topics
from dev.chaos.ledger import Act, Answer, Entry, Ledger
from dev.chaos.listener import Heard
from dev.chaos.topics import Written
from dev.chaos.verdict import Finding, Kind
from tests.world import HOUR, World

DAY = timedelta(days=1)
OF_EXPIRED = "WHERE id IN (SELECT {} FROM calendar.appointments WHERE status = 'Expired')"


def booked(engine: Engine, ago: timedelta = timedelta(0)) -> UUID:
    now, slot = datetime.now(UTC), uuid4()
    with engine.begin() as connection:
        bookings.offer_slot(
            connection,
            slot,
            tenant_id=uuid4(),
            agent_id=uuid4(),
            start_at=now + 3 * DAY,
            end_at=now + 3 * DAY + HOUR,
            min_lead_time_minutes=60,
        )
    return operations.book(engine, slot, uuid4(), now - ago).id


@pytest.fixture
def lawful(world: World) -> World:
    """One appointment in each state, by the product's own hands."""
    now, engine = datetime.now(UTC), world.engine
    booked(engine)
    operations.confirm(engine, booked(engine), now)
    operations.decline(engine, booked(engine), now)
    investor = world.all("SELECT investor_id, id FROM calendar.appointments WHERE version = 1")[0]
    operations.cancel(engine, investor["id"], investor["investor_id"], now)
    booked(engine)
    booked(engine, ago=25 * HOUR)
    world.run()
    return world


def judged(world: World, ledger: Ledger | None = None) -> set[tuple[Kind, str]]:
    with world.engine.connect() as connection:
        found = audit.judge(connection, ledger or Ledger())
    return {(one.kind, one.says) for one in found}


def test_a_lawful_world_is_found_lawful(lawful: World) -> None:
    statuses = {row["status"] for row in lawful.all("SELECT status FROM calendar.appointments")}
    assert statuses == {"Pending", "Confirmed", "Declined", "Cancelled", "Expired"}
    assert judged(lawful) == set()


PLANTED = [
    ("UPDATE calendar.appointments SET version = version + 1", "an appointment moved more than"),
    ("UPDATE calendar.calendar_events SET version = version + 1", "an event's version"),
    ("UPDATE calendar.availability_slots SET version = version + 1", "a slot's version"),
    ("DELETE FROM calendar.outbox_messages WHERE id % 2 = 0", "an end without its pair"),
    (
        """INSERT INTO calendar.outbox_messages (topic, key, payload, headers)
        SELECT topic, key, payload, headers FROM calendar.outbox_messages LIMIT 1""",
        "more messages than ends",
    ),
    ("UPDATE calendar.outbox_messages SET set_aside_at = now()", "a message set aside"),
    (
        """UPDATE calendar.appointments SET pending_expires_at = updated_at
        WHERE status = 'Expired'""",
        "expired before its deadline",
    ),
    ("UPDATE calendar.appointments SET cancelled_by = id", "CancelledBy does not tell"),
    ("UPDATE calendar.calendar_events SET cancel_reason = 'else'", "the event does not follow"),
    (
        "UPDATE calendar.event_reminders SET status = 'Sent' WHERE status = 'Skipped'",
        "the reminders do not follow",
    ),
    (
        f"UPDATE calendar.availability_slots SET status = 'Expired' {OF_EXPIRED.format('slot_id')}",
        "the slot does not follow",
    ),
    (
        """UPDATE calendar.outbox_messages
        SET payload = replace(payload::text, 'Expired', 'Declined')::json""",
        "a message does not say what happened",
    ),
    (
        """INSERT INTO calendar.expiry_failures
            (appointment_id, rule, first_failed_at, last_failed_at, last_run_id)
        SELECT id, 'a rule', now(), now(), 'a run' FROM calendar.appointments
        WHERE status = 'Expired'""",
        "a failure is kept",
    ),
]


@pytest.mark.parametrize(("sql", "says"), PLANTED)
def test_a_planted_violation_is_found(lawful: World, sql: str, says: str) -> None:
    lawful.execute(sql)
    assert any(found.startswith(says) for _, found in judged(lawful))


def test_two_that_hold_one_slot_are_found(lawful: World) -> None:
    lawful.execute("DROP INDEX calendar.ux_appointments_one_active_per_slot")
    lawful.execute(
        """UPDATE calendar.appointments SET slot_id =
        (SELECT slot_id FROM calendar.appointments WHERE status = 'Confirmed')
        WHERE status = 'Pending'"""
    )
    assert (Kind.OTHER, "two hold one slot") in judged(lawful)


@pytest.mark.parametrize(
    ("answers", "now", "kinds"),
    [
        ({Act.CANCEL: Answer.DONE}, "Pending", {Kind.LOST}),
        ({Act.CONFIRM: Answer.DONE}, "Expired", {Kind.LOST}),
        ({Act.CONFIRM: Answer.REFUSED}, "Confirmed", {Kind.DOUBLE}),
        ({Act.CONFIRM: Answer.UNKNOWN}, "Confirmed", set()),
        ({Act.CONFIRM: Answer.UNKNOWN}, "Pending", set()),
        ({Act.CONFIRM: Answer.DONE, Act.CANCEL: Answer.UNKNOWN}, "Cancelled", set()),
        ({Act.DECLINE: Answer.DEADLOCK}, "Pending", {Kind.OTHER}),
    ],
)
def test_what_users_were_told_is_held_against_the_state(
    lawful: World, answers: dict[Act, Answer], now: str, kinds: set[Kind]
) -> None:
    made = lawful.all("SELECT id FROM calendar.appointments WHERE status = :now", now=now)[0]["id"]
    ledger = Ledger([Entry(act, made, answer) for act, answer in answers.items()])
    with lawful.engine.connect() as connection:
        assert {one.kind for one in audit.judge(connection, ledger)} == kinds


def test_a_promised_booking_and_a_committed_message_that_are_gone_are_lost(lawful: World) -> None:
    ledger = Ledger([Entry(act, uuid4(), Answer.DONE) for act in (Act.BOOK, Act.NOTE)])
    assert judged(lawful, ledger) == {
        (Kind.LOST, "a booking that was promised"),
        (Kind.LOST, "a message that was committed"),
    }


WRITTEN = {name: Written(n, "t", "k", b"v", {}, True) for n, name in enumerate(["one", "two"], 1)}
ONE, TWO = (Heard("a log", "t", 0, "k", b"v", (("message-id", name.encode()),)) for name in WRITTEN)


def kinds(found: Sequence[Finding]) -> list[Kind]:
    return [one.kind for one in found]


def test_topics_may_repeat_but_not_lose_invent_alter_scatter_or_overtake() -> None:
    stranger = replace(TWO, headers=(("message-id", b"three"),))
    assert topics.judge(WRITTEN, [ONE, TWO, ONE]) == []
    assert topics.repeats([ONE, TWO, ONE]) == 1
    assert kinds(topics.judge(WRITTEN, [ONE])) == [Kind.LOST]
    assert kinds(topics.judge(WRITTEN, [ONE, TWO, stranger])) == [Kind.DOUBLE]
    assert kinds(topics.judge(WRITTEN, [ONE, TWO, replace(ONE, value=b"w")])) == [Kind.OTHER]
    assert kinds(topics.judge(WRITTEN, [ONE, replace(TWO, partition=1)])) == [Kind.OTHER]
    assert kinds(topics.judge(WRITTEN, [TWO, ONE])) == [Kind.ORDER]
