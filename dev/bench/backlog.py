"""What is there to be worked: overdue bookings and waiting messages, by the thousand."""

from collections.abc import Sequence
from typing import cast

from sqlalchemy import Connection, Engine, text

from app.domain.outbox import TOPICS
from app.socket_timeout import TimedConnection
from dev.bench.figure import StructureError

REMINDERS = 3
"""Of each booking; one of them has been sent."""

_BOOKINGS = """
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT n, gen_random_uuid() AS appointment, gen_random_uuid() AS slot, gen_random_uuid() AS event,
    gen_random_uuid() AS tenant, gen_random_uuid() AS agent,
    now() + CASE WHEN n % 10 = 0 THEN interval '30 minutes' ELSE interval '2 days' END AS starts,
    now() - interval '1 day' + n * interval '1 millisecond' AS deadline
FROM generate_series(1, :count) n;
INSERT INTO calendar.availability_slots
    (id, tenant_id, agent_id, status, start_at, end_at, min_lead_time_minutes)
SELECT slot, tenant, agent, 'Booked', starts, starts + interval '1 hour', 60 FROM made ORDER BY n;
INSERT INTO calendar.calendar_events (id, tenant_id, start_at, end_at, status)
SELECT event, tenant, starts, starts + interval '1 hour', 'Scheduled' FROM made ORDER BY n;
INSERT INTO calendar.event_reminders (calendar_event_id, status, remind_at)
SELECT event, CASE WHEN m = 1 THEN 'Sent' ELSE 'Pending' END, starts - m * interval '1 hour'
FROM made, generate_series(1, :reminders) m ORDER BY n, m;
INSERT INTO calendar.appointments
    (id, tenant_id, slot_id, calendar_event_id, investor_id, agent_id, created_at,
     pending_expires_at)
SELECT appointment, tenant, slot, event, gen_random_uuid(), agent, now() - interval '2 days',
    deadline
FROM made ORDER BY n
"""

_MESSAGES = """
INSERT INTO calendar.outbox_messages (topic, key, payload, headers)
SELECT (CAST(:topics AS text[]))[1 + n % 2],
    CASE WHEN :keys > 0 THEN (n % :keys)::text ELSE gen_random_uuid()::text END,
    json_build_object('ContractVersion', 1, 'Text', repeat('x', 500 - 35)),
    jsonb_build_object('correlation-id', gen_random_uuid(),
        'traceparent', '00-' || md5(n::text) || '-' || left(md5(n::text), 16) || '-00')
FROM generate_series(1, :count) n
"""

# Every rule of C3 over all that has expired; written down here once more on purpose.
_WHOLE = """
SELECT count(*) AS expired, count(*) FILTER (WHERE
    a.version = 2 AND s.version = 2 AND e.version = 2
    AND s.status = CASE WHEN a.updated_at <= s.start_at - interval '60 minutes'
                        THEN 'Available' ELSE 'Expired' END
    AND e.status = 'Cancelled' AND e.cancel_reason = 'Запись не подтверждена агентом в срок'
    AND s.updated_at = a.updated_at AND e.updated_at = a.updated_at
    AND (SELECT count(*) FROM calendar.event_reminders r
         WHERE r.calendar_event_id = e.id AND r.status = 'Skipped') = 2
    AND (SELECT count(*) FROM calendar.event_reminders r
         WHERE r.calendar_event_id = e.id AND r.status = 'Sent') = 1
) AS whole, (SELECT count(*) FROM calendar.outbox_messages) AS messages,
    (SELECT count(DISTINCT (topic, key)) FROM calendar.outbox_messages) AS changes
FROM calendar.appointments a
JOIN calendar.availability_slots s ON s.id = a.slot_id
JOIN calendar.calendar_events e ON e.id = a.calendar_event_id
WHERE a.status = 'Expired'
"""


def unhurried(connection: Connection) -> None:
    """From now on its statements may take their time, as none of the product's may."""
    cast("TimedConnection", connection.connection.dbapi_connection).seconds = None
    connection.execute(text("SET statement_timeout = 0"))


def unlimited(connection: Connection) -> None:
    """Moreover they may read whole tables."""
    unhurried(connection)
    connection.execute(text("SET LOCAL enable_seqscan = on"))
    connection.execute(text("SET LOCAL enable_bitmapscan = on"))


def bookings(engine: Engine, count: int) -> None:
    """So many overdue bookings, each with all its parts, oldest first."""
    with engine.begin() as connection:
        unlimited(connection)
        connection.execute(text("SET LOCAL session_replication_role = replica"))  # no triggers
        for statement in _BOOKINGS.split(";"):
            connection.execute(text(statement), {"count": count, "reminders": REMINDERS})
    settle(engine)


def messages(engine: Engine, count: int, keys: int = 0, topics: Sequence[str] = TOPICS) -> None:
    """So many waiting messages of 500 bytes; each with its own key, or over so many keys."""
    with engine.begin() as connection:
        unlimited(connection)
        values = {"count": count, "keys": keys, "topics": list(topics)}
        connection.execute(text(_MESSAGES), values)
    settle(engine)


def settle(engine: Engine) -> None:
    """Statistics and visibility as autovacuum would leave them, and no checkpoint pending."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        unhurried(connection)
        connection.execute(text("VACUUM ANALYZE"))
        connection.execute(text("CHECKPOINT"))


def check_whole(engine: Engine, expired: int) -> None:
    """Whoever worked, exactly so many are expired, each whole and with one pair of messages."""
    with engine.begin() as connection:
        unlimited(connection)
        found = connection.execute(text(_WHOLE)).one()
    if tuple(found) != (expired, expired, 2 * expired, 2 * expired):
        raise StructureError(
            f"of {expired} expiries {found.expired} were found, {found.whole} of them whole, with"
            f" {found.messages} messages about {found.changes} changes"
        )


_CROWD = """
INSERT INTO calendar.appointments
    (id, tenant_id, slot_id, calendar_event_id, investor_id, agent_id, status, created_at,
     pending_expires_at)
SELECT uuidv7(), id, uuidv7(), uuidv7(), id, id,
    CASE WHEN n % 10 = 0 THEN 'Pending' ELSE 'Declined' END, now(),
    now() + interval '1 hour' + n * interval '1 second'
FROM generate_series(1, :count) n, (SELECT gen_random_uuid() AS id) one
"""


def crowd(engine: Engine, count: int) -> None:
    """So many further appointments: a tenth of them undecided and not due, without their parts."""
    with engine.begin() as connection:
        unlimited(connection)
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text(_CROWD), {"count": count})
    settle(engine)
