"""What PostgreSQL can do at all: the same writes with nobody between it and its own loop."""

import time

from sqlalchemy import Engine, text

from app.domain.outbox import TOPICS
from app.kafka import Sender
from dev.bench import backlog
from dev.bench.figure import StructureError

_LOOP = """
CREATE OR REPLACE PROCEDURE calendar.bench_loop(items integer) LANGUAGE plpgsql AS $$
DECLARE
    as_of timestamptz := now();
    correlation uuid := gen_random_uuid();
    item record;
    last_at timestamptz := '-infinity';
    last_id uuid := '00000000-0000-0000-0000-000000000000';
    headers jsonb;
    parties text;
BEGIN
    FOR n IN 1..items LOOP
        SELECT a.id, a.tenant_id, a.slot_id, a.calendar_event_id, a.investor_id, a.agent_id,
            a.pending_expires_at, a.version, s.version AS slot_version, e.version AS event_version,
            as_of <= s.start_at - make_interval(mins => s.min_lead_time_minutes) AS usable
        INTO item
        FROM calendar.appointments a
        JOIN calendar.availability_slots s ON s.id = a.slot_id
        JOIN calendar.calendar_events e ON e.id = a.calendar_event_id
        WHERE a.status = 'Pending' AND a.pending_expires_at < as_of
          AND (a.pending_expires_at, a.id) > (last_at, last_id)
        ORDER BY a.pending_expires_at, a.id LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        last_at := item.pending_expires_at;
        last_id := item.id;
        UPDATE calendar.appointments
            SET status = 'Expired', updated_at = as_of, version = item.version + 1
            WHERE id = item.id;
        UPDATE calendar.availability_slots
            SET status = CASE WHEN item.usable THEN 'Available' ELSE 'Expired' END,
                updated_at = as_of, version = item.slot_version + 1
            WHERE id = item.slot_id;
        UPDATE calendar.calendar_events
            SET status = 'Cancelled', cancel_reason = 'Запись не подтверждена агентом в срок',
                updated_at = as_of, version = item.event_version + 1
            WHERE id = item.calendar_event_id;
        UPDATE calendar.event_reminders SET status = 'Skipped', updated_at = as_of
            WHERE calendar_event_id = item.calendar_event_id AND status = 'Pending';
        parties := format('{"ContractVersion":1,"AppointmentId":"%s","SlotId":"%s",'
            '"CalendarEventId":"%s","TenantId":"%s","InvestorId":"%s","AgentId":"%s",', item.id,
            item.slot_id, item.calendar_event_id, item.tenant_id, item.investor_id, item.agent_id);
        headers := format('{"correlation-id":"%s","traceparent":"00-%s-0123456789abcdef-00"}',
            correlation, translate(correlation::text, '-', ''))::jsonb;
        INSERT INTO calendar.outbox_messages (message_id, topic, key, payload, headers) VALUES
            (gen_random_uuid(), 'pin.calendar.appointment-cancelled.v1', item.id::text,
             (parties || format('"Reason":"Expired","OccurredAt":"%s","CorrelationId":"%s"}',
              as_of, correlation))::json, headers),
            (gen_random_uuid(), 'pin.calendar.event-status-changed.v1',
             item.calendar_event_id::text,
             (parties || format('"Status":"Cancelled","OccurredAt":"%s","CorrelationId":"%s"}',
              as_of, correlation))::json, headers);
        COMMIT;
    END LOOP;
END $$
"""


class InDatabaseLoop:
    """A PL/pgSQL loop on one connection with COMMIT per item: no round trip, no client."""

    def __init__(self, engine: Engine) -> None:
        self._connection = engine.connect().execution_options(
            isolation_level="AUTOCOMMIT",
            no_parameters=True,  # a percent sign of the procedure is its own
        )
        backlog.unhurried(self._connection)
        self._connection.exec_driver_sql(_LOOP)

    def run(self, items: int) -> float:
        """Items a second."""
        began = time.monotonic()
        self._connection.execute(text(f"CALL calendar.bench_loop({items})"))
        return items / (time.monotonic() - began)

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


def require_durable(engine: Engine) -> None:
    """A commit that does not wait for the disk measures nothing."""
    with engine.connect() as connection:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            if connection.execute(text(f"SHOW {name}")).scalar_one() != "on":
                raise StructureError(f"{name} is off")


def send_from_memory(sender: Sender, count: int) -> float:
    """The product's own producer with nothing else to do; messages a second."""
    producer = sender.connect()
    producer.produce(TOPICS[0], key=b"warm", value=b"{}")
    producer.flush()
    headers: dict[str, str | bytes | None] = {
        "message-id": "0" * 36,
        "correlation-id": "0" * 36,
        "traceparent": "0" * 55,
    }
    keys = [str(number).encode() for number in range(count)]
    value, acknowledged = b"x" * 500, 0

    def note(error: object, _message: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    began = time.monotonic()
    for number, key in enumerate(keys):
        while True:
            try:
                producer.produce(
                    TOPICS[number % 2], key=key, value=value, headers=headers, on_delivery=note
                )
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    if acknowledged != count:
        raise StructureError(f"{acknowledged} of {count} messages were acknowledged")
    return count / (time.monotonic() - began)


_READ = """
SELECT id, message_id, topic, key, payload::text, headers FROM calendar.outbox_messages
WHERE published_at IS NULL AND discarded_at IS NULL AND set_aside_at IS NULL AND id > :after
ORDER BY id LIMIT :batch FOR NO KEY UPDATE SKIP LOCKED
"""
_MARK = "UPDATE calendar.outbox_messages SET published_at = clock_timestamp() WHERE id = ANY(:ids)"


def read_and_mark(engine: Engine, batch: int) -> float:
    """All waiting messages, read and marked without a look at order or at Kafka; messages/s."""
    began, after, count = time.monotonic(), 0, 0
    while True:
        with engine.begin() as connection:
            rows = connection.execute(text(_READ), {"after": after, "batch": batch}).all()
            if not rows:
                return count / (time.monotonic() - began)
            connection.execute(text(_MARK), {"ids": [row.id for row in rows]})
        after, count = rows[-1].id, count + len(rows)
