"""Writing what the law decided about a booking: the whole cascade as one statement."""

import json
from uuid import UUID

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from app.domain.booking import Ending
from app.domain.outbox import OutboxMessage
from app.prepared import Prepared


class VersionConflictError(Exception):
    """Somebody changed what we were about to write (R2): nothing of ours is written."""

    def __init__(self, appointment_id: UUID) -> None:
        super().__init__(f"appointment {appointment_id} or a part of it was changed meanwhile")


# The whole cascade as one statement, for expiry, decline and cancel alike. All pending reminders
# of the event, not the list that was read: one committed just before the event was locked is theirs
# too, and none can appear while the event is held. Statuses are of unknown type, so that they take
# their column's: an adopter's may be an enum, as his versions may be bigint.
SAVE_ENDING = Prepared(
    "save_ending",
    {
        "as_of": "timestamptz",
        "appointment_id": "uuid",
        "appointment_version": "bigint",
        "appointment_status": "unknown",
        "cancelled_by": "uuid",
        "slot_id": "uuid",
        "slot_version": "bigint",
        "slot_status": "unknown",
        "event_id": "uuid",
        "event_version": "bigint",
        "event_status": "unknown",
        "cancel_reason": "text",
        "message_id_1": "uuid",
        "topic_1": "text",
        "key_1": "text",
        "payload_1": "json",
        "headers_1": "jsonb",
        "message_id_2": "uuid",
        "topic_2": "text",
        "key_2": "text",
        "payload_2": "json",
        "headers_2": "jsonb",
    },
    """
WITH appointment AS (
    UPDATE calendar.appointments
    SET status = :appointment_status, updated_at = :as_of, cancelled_by = :cancelled_by,
        version = :appointment_version
    WHERE id = :appointment_id AND version = :appointment_version - 1
    RETURNING 1
), slot AS (
    UPDATE calendar.availability_slots
    SET status = :slot_status, updated_at = :as_of, version = :slot_version
    WHERE id = :slot_id AND version = :slot_version - 1
    RETURNING 1
), event AS (
    UPDATE calendar.calendar_events
    SET status = :event_status, cancel_reason = :cancel_reason, updated_at = :as_of,
        version = :event_version
    WHERE id = :event_id AND version = :event_version - 1
    RETURNING 1
), reminder AS (
    UPDATE calendar.event_reminders
    SET status = 'Skipped', updated_at = :as_of
    WHERE calendar_event_id = :event_id AND status = 'Pending'
), message AS (
    INSERT INTO calendar.outbox_messages (message_id, topic, key, payload, headers)
    VALUES (:message_id_1, :topic_1, :key_1, :payload_1, :headers_1),
           (:message_id_2, :topic_2, :key_2, :payload_2, :headers_2)
)
SELECT pg_current_xact_id()::text FROM appointment, slot, event
""",
)


def save_ending(connection: Connection, ending: Ending) -> str:
    """Write a cascade and its pair of messages, or raise VersionConflictError.

    Returns the transaction's id, by which `is_committed` finds out what became of it.
    """
    written = SAVE_ENDING.run(connection, _values(ending))
    if written is None:
        raise VersionConflictError(ending.appointment.id)
    return str(written[0])


def is_committed(connection: Connection, transaction: str) -> bool:
    """Whether it is, after an error that does not tell; what is open here is rolled back.

    Asked on this connection, or where it is lost on a new one in its place.
    """
    try:
        if getattr(connection.connection.dbapi_connection, "closed", True):
            connection.invalidate()
        connection.rollback()
        status = connection.execute(_STATUS, {"id": transaction}).scalar_one()
        connection.rollback()
    except SQLAlchemyError:  # the server is away: nobody can tell, but the appointment's own status
        return False
    return bool(status == "committed")


_STATUS = text("SELECT pg_xact_status(CAST(:id AS xid8))")


def _values(ending: Ending) -> dict[str, object]:
    appointment, slot, event = ending.appointment, ending.slot, ending.event
    first, second = ending.messages
    return {
        "as_of": appointment.updated_at,
        "appointment_id": appointment.id,
        "appointment_version": appointment.version,
        "appointment_status": appointment.status,
        "cancelled_by": appointment.cancelled_by,
        "slot_id": slot.id,
        "slot_version": slot.version,
        "slot_status": slot.status,
        "event_id": event.id,
        "event_version": event.version,
        "event_status": event.status,
        "cancel_reason": event.cancel_reason,
        **_message(first, 1),
        **_message(second, 2),
    }


def _message(message: OutboxMessage, number: int) -> dict[str, object]:
    return {
        f"message_id_{number}": message.message_id,
        f"topic_{number}": message.topic,
        f"key_{number}": message.key,
        f"payload_{number}": message.payload,
        f"headers_{number}": json.dumps(message.headers),
    }
