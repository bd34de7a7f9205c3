"""What the rules allow raises no alarm: every operation, an adopter's own states, live traffic."""

import threading
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import pytest
from sqlalchemy import text

from app import operations
from app.audit import AuditOptions
from app.domain.law import Refusal
from app.store.endings import VersionConflictError
from tests.audit.lawful import DAY, LawfulWorld
from tests.neighbour import Neighbour
from tests.world import HOUR, MINUTE


def test_after_every_operation_nothing_is_found(lawful: LawfulWorld) -> None:
    statuses = lawful.all("SELECT DISTINCT status FROM calendar.appointments ORDER BY 1")
    assert len(statuses) == 5
    assert lawful.audit() == []


def test_an_empty_database_is_lawful(lawful: LawfulWorld) -> None:
    lawful.plant(
        *(
            f"DELETE FROM calendar.{table}"
            for table in ("appointments", "availability_slots", "calendar_events")
        ),
        *(
            f"DELETE FROM calendar.{table}"
            for table in ("event_reminders", "outbox_messages", "job_runs")
        ),
    )
    assert lawful.audit() == []


IDENTIFIERS = {
    "slot_id": "%",
    "tenant_id": "%",
    "investor_id": "%",
    "agent_id": "%",
    "calendar_event_id": "%cancelled%",
    "id": "%status%",
}
"""Columns, and the topics on which they are not the key."""


def capitals(identifier: tuple[str, str]) -> str:
    column, topic = identifier
    return f"""UPDATE calendar.outbox_messages m
        SET payload = replace(payload::text, a.{column}::text, upper(a.{column}::text))::json
        FROM calendar.appointments a
        WHERE a.id::text = lower(payload ->> 'AppointmentId') AND m.topic LIKE '{topic}'"""


ALLOWED = {
    "a deadline as late as D1 lets it be": (
        "pending",
        """UPDATE calendar.availability_slots SET start_at = (
            SELECT pending_expires_at + interval '60 min' FROM calendar.appointments WHERE id = :a)
        WHERE id = :s""",
    ),
    "a slot freed at the last moment at which it can be booked": (
        "expired",
        """UPDATE calendar.availability_slots SET start_at = updated_at + interval '60 min',
            end_at = updated_at + interval '2 h' WHERE id = :s""",
    ),
    "an ending that retention is about to forget": (
        "ancient",
        """UPDATE calendar.appointments SET updated_at = now() - interval '6 days 23 h 30 min'
        WHERE id = :a""",
    ),
    "half a pair that retention is about to forget": (
        "expired",
        """DELETE FROM calendar.outbox_messages
            WHERE payload ->> 'AppointmentId' = :a_text AND topic LIKE '%cancelled%';
        UPDATE calendar.outbox_messages SET created_at = now() - interval '6 days 23 h 30 min'
            WHERE payload ->> 'AppointmentId' = :a_text""",
    ),
    "a cycle that found nothing": (
        "pending",
        """INSERT INTO calendar.job_runs (run_id, job, started_at, finished_at, outcome, result)
        VALUES ('empty', 'appointment_timeout', now(), now(), 'completed', '{"ExpiredCount": 0,
        "SlotsReleasedCount": 0, "SlotsExpiredCount": 0, "SkippedLockedCount": 0,
        "DurationMs": 0}')""",
    ),
    "an adopter's status holds a slot": (
        "confirmed",
        """ALTER TABLE calendar.appointments DROP CONSTRAINT appointment_status_known;
        UPDATE calendar.appointments SET status = 'NoShow', cancelled_by = agent_id
        WHERE id = :a""",
    ),
    "an adopter's status of a slot": (
        "confirmed",
        """ALTER TABLE calendar.availability_slots DROP CONSTRAINT slot_status_known;
        UPDATE calendar.availability_slots SET status = 'Blocked' WHERE id = :s""",
    ),
    "a confirmed appointment has taken place": (
        "confirmed",
        "UPDATE calendar.calendar_events SET status = 'Completed' WHERE id = :e",
    ),
    "an event of the agent's own": (
        "confirmed",
        """INSERT INTO calendar.calendar_events (tenant_id, origin, start_at, end_at)
        VALUES (:new, 'Manual', now(), now())""",
    ),
    "the slot's time has changed since": (
        "declined",
        """UPDATE calendar.availability_slots SET start_at = now(), end_at = now(),
        updated_at = clock_timestamp(), version = version + 1 WHERE id = :s""",
    ),
    "the slot has become auto-confirmed since": (
        "expired",
        "UPDATE calendar.availability_slots SET auto_confirm = true WHERE id = :s",
    ),
    "a row that came with its time from elsewhere": (
        "declined",
        """UPDATE calendar.availability_slots SET status = 'Expired', version = 1 WHERE id = :s""",
    ),
    "an old ending outside D1": (
        "ancient",
        """UPDATE calendar.appointments SET pending_expires_at = created_at - interval '1 h'
        WHERE id = :a""",
    ),
    "a caller's clock that is a little fast": (
        "pending",
        """UPDATE calendar.appointments SET updated_at = clock_timestamp() + interval '30 s'
        WHERE id = :a""",
    ),
    "a message to send again later": (
        "expired",
        """UPDATE calendar.outbox_messages SET published_at = NULL, attempts = 2,
        last_error = 'refused' WHERE payload ->> 'AppointmentId' = :a_text""",
    ),
    "a change after the ending, with its version": (
        "expired",
        """UPDATE calendar.appointments SET updated_at = clock_timestamp(), version = version + 1
        WHERE id = :a""",
    ),
    "identifiers in capitals": ("expired", ";".join(map(capitals, IDENTIFIERS.items()))),
    "escapes in a document": (
        "expired",
        r"""UPDATE calendar.outbox_messages SET payload = replace(payload::text,
        '"Expired"', '"\u0045xpired"')::json""",
    ),
    "an overdue appointment within the SLO": (
        "pending",
        """UPDATE calendar.appointments SET created_at = now() - interval '2 h',
        pending_expires_at = now() - interval '80 s' WHERE id = :a""",
    ),
    "a cycle under way": (
        "pending",
        """INSERT INTO calendar.job_runs (run_id, job, started_at)
        VALUES ('going on', 'appointment_timeout', now() - interval '2 min')""",
    ),
    "a drain without the figures of a cycle": (
        "pending",
        """INSERT INTO calendar.job_runs (run_id, job, started_at, finished_at, outcome, result)
        VALUES ('drain', 'outbox_publisher', now(), now(), 'completed', '{"PublishedCount": 1}')""",
    ),
    "a kept failure": (
        "pending",
        """INSERT INTO calendar.expiry_failures
            (appointment_id, rule, first_failed_at, last_failed_at, last_run_id)
        VALUES (:a, 'slot: found Available, wanted Booked', now(), now(), 'run')""",
    ),
}


@pytest.mark.parametrize("state", ALLOWED)
def test_a_state_that_the_rules_allow_is_no_noise(lawful: LawfulWorld, state: str) -> None:
    subject, statements = ALLOWED[state]
    values = {**lawful.ids(subject), "new": uuid4()}
    lawful.plant(*statements.split(";"), **values)
    assert [one for one in lawful.audit() if one.check != "guards-stand"] == []


def test_o3_the_rows_of_one_batch_are_marked_in_any_order(lawful: LawfulWorld) -> None:
    """One statement marks them, each with the clock's time when it gets there."""
    lawful.execute(
        """INSERT INTO calendar.outbox_messages (topic, key, payload, created_at, published_at)
        SELECT 'other', 'k', '{}', now() - interval '1 s', now() - number * interval '1 ms'
        FROM generate_series(1, 5) AS number"""
    )
    assert [one.check for one in lawful.audit()] == ["topic-of-somebody-else"]


def test_o3_a_discarded_message_holds_nobody_back(lawful: LawfulWorld) -> None:
    lawful.execute(
        """INSERT INTO calendar.outbox_messages (topic, key, payload, discarded_at, published_at)
        VALUES ('other', 'k', '{}', now(), NULL), ('other', 'k', '{}', NULL, now())"""
    )
    assert [one.check for one in lawful.audit()] == ["topic-of-somebody-else"]


def test_o5_a_shorter_retention_excuses_more(lawful: LawfulWorld) -> None:
    """What retention may have removed is not missed; the window is `OUTBOX_RETENTION_DAYS`."""
    lawful.plant(
        """UPDATE calendar.appointments SET created_at = created_at - interval '2 days',
            pending_expires_at = pending_expires_at - interval '2 days',
            updated_at = updated_at - interval '2 days' WHERE id = :a""",
        "DELETE FROM calendar.outbox_messages WHERE payload ->> 'AppointmentId' = :a_text",
        **lawful.ids("expired"),
    )
    assert [one.check for one in lawful.audit()] == ["expired-has-its-pair"]
    assert lawful.audit(options=AuditOptions(retention_days=1)) == []


def test_live_traffic_raises_no_alarm(lawful: LawfulWorld) -> None:
    """Each check sees one moment: no cascade is seen half done."""
    over = threading.Event()
    rounds = 0

    def keep(work: Callable[[], object]) -> None:
        nonlocal rounds
        while not over.is_set():
            work()
            rounds += 1

    def book_and_move() -> None:
        due, decided = lawful.book(ago=25 * HOUR), lawful.book(starts_in=DAY)
        with suppress(Refusal, VersionConflictError):  # the cycle was faster
            operations.decline(lawful.engine, due.id, lawful.now())
        operations.confirm(lawful.engine, decided.id, lawful.now())
        operations.cancel(lawful.engine, decided.id, decided.agent_id, lawful.now())
        operations.book(lawful.engine, decided.slot_id, uuid4(), lawful.now())
        lawful.book(ago=25 * HOUR, starts_in=MINUTE)

    traffic = [
        Neighbour(lambda: keep(book_and_move)),
        Neighbour(lambda: keep(lambda: lawful.run(connections=2))),
        Neighbour(lambda: keep(lawful.publish)),
    ]
    try:
        found = [lawful.audit() for _ in range(6)]
    finally:
        over.set()
        for one in traffic:
            one.result()
    assert [one for audited in found for one in audited if one.severity == "violation"] == []
    assert rounds > 20
    expired = text("SELECT count(*) FROM calendar.appointments WHERE status = 'Expired'")
    with lawful.engine.begin() as connection:
        assert connection.execute(expired).scalar_one() > 10
