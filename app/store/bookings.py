"""What the calendar's own operations read, lock and write."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.appointment import Appointment
from app.domain.booking import Booking
from app.domain.event import CalendarEvent
from app.domain.slot import Slot
from app.store.endings import VersionConflictError
from app.store.rows import RIVAL_HOLDS_SLOT, booking, columns


def save_appointment(connection: Connection, appointment: Appointment) -> None:
    """Write an appointment's move alone (confirm), or raise VersionConflictError."""
    written = connection.execute(
        text(
            """
            UPDATE calendar.appointments
            SET status = :status, updated_at = :as_of, version = :version
            WHERE id = :id AND version = :version - 1
            """
        ),
        {
            "status": appointment.status,
            "as_of": appointment.updated_at,
            "version": appointment.version,
            "id": appointment.id,
        },
    ).rowcount
    if written != 1:
        raise VersionConflictError(appointment.id)


def lock_booking(connection: Connection, appointment_id: UUID) -> Booking | None:
    """Lock an appointment and all that follows it, part after part (S6); None: there is none.

    Waits for whoever holds a part, but not for ever: the connection's `lock_timeout`.
    """
    values = {"id": appointment_id}
    for lock in _LOCKS:
        connection.execute(lock, values)
    row = connection.execute(_LOCKED_BOOKING, values).first()
    return None if row is None else booking(row)


# Each lock its own statement, so that the row is read anew after whoever held the one before.
_LOCKS = [
    text("SELECT FROM calendar.appointments WHERE id = :id FOR NO KEY UPDATE"),
    text(
        """SELECT FROM calendar.availability_slots WHERE id =
        (SELECT slot_id FROM calendar.appointments WHERE id = :id) FOR NO KEY UPDATE"""
    ),
    text(
        """SELECT FROM calendar.calendar_events WHERE id =
        (SELECT calendar_event_id FROM calendar.appointments WHERE id = :id) FOR NO KEY UPDATE"""
    ),
    text(
        """SELECT FROM calendar.event_reminders WHERE status = 'Pending' AND calendar_event_id =
        (SELECT calendar_event_id FROM calendar.appointments WHERE id = :id)
        ORDER BY id FOR NO KEY UPDATE"""
    ),
]
_LOCKED_BOOKING = text(
    f"""
    SELECT {columns(Appointment, "appointment")}, {columns(Slot, "slot")},
        {columns(CalendarEvent, "event")}, reminder_ids, reminder_updated_at, {RIVAL_HOLDS_SLOT}
    FROM calendar.appointments appointment
    LEFT JOIN calendar.availability_slots slot ON slot.id = appointment.slot_id
    LEFT JOIN calendar.calendar_events event ON event.id = appointment.calendar_event_id
    CROSS JOIN LATERAL (
        SELECT array_agg(id ORDER BY id) AS reminder_ids,
               array_agg(updated_at ORDER BY id) AS reminder_updated_at
        FROM calendar.event_reminders
        WHERE calendar_event_id = event.id AND status = 'Pending'
    ) reminder
    WHERE appointment.id = :id
    """
)


def lock_slot(connection: Connection, slot_id: UUID) -> Slot | None:
    """Lock a slot to book it; bookers of one slot take turns here (INV-SLT-3)."""
    row = (
        connection.execute(
            text(
                f"""SELECT {columns(Slot)} FROM calendar.availability_slots
            WHERE id = :id FOR NO KEY UPDATE"""
            ),
            {"id": slot_id},
        )
        .mappings()
        .first()
    )
    return None if row is None else Slot(**row)


def offer_slot(connection: Connection, slot_id: UUID, **columns: object) -> None:
    """A new Available slot; `columns` are the table's own."""
    names = ", ".join(columns)
    values = ", ".join(f":{name}" for name in columns)
    connection.execute(
        text(f"INSERT INTO calendar.availability_slots (id, {names}) VALUES (:id, {values})"),
        {"id": slot_id, **columns},
    )


def save_new_booking(
    connection: Connection,
    appointment: Appointment,
    slot: Slot,
    reminders_at: tuple[datetime, ...],
) -> None:
    """Write a new appointment, its event and reminders, and the slot's move to Booked."""
    values = {
        "created_at": appointment.updated_at,
        "id": appointment.id,
        "tenant_id": appointment.tenant_id,
        "slot_id": appointment.slot_id,
        "event_id": appointment.calendar_event_id,
        "investor_id": appointment.investor_id,
        "agent_id": appointment.agent_id,
        "status": appointment.status,
        "pending_expires_at": appointment.pending_expires_at,
        "slot_version": slot.version,
        "reminders_at": list(reminders_at),
    }
    for step in _BOOK:
        if connection.execute(step, values).rowcount == 0 and step is not _REMIND:
            raise VersionConflictError(appointment.id)


_REMIND = text(
    """INSERT INTO calendar.event_reminders (calendar_event_id, remind_at, updated_at)
    SELECT :event_id, remind_at, :created_at
    FROM unnest(CAST(:reminders_at AS timestamptz[])) AS remind_at"""
)
_BOOK = [
    text(
        """UPDATE calendar.availability_slots
        SET status = 'Booked', updated_at = :created_at, version = :slot_version
        WHERE id = :slot_id AND version = :slot_version - 1"""
    ),
    text(
        """INSERT INTO calendar.calendar_events
            (id, tenant_id, origin, status, start_at, end_at, updated_at)
        SELECT :event_id, :tenant_id, 'Appointment', 'Scheduled', start_at, end_at, :created_at
        FROM calendar.availability_slots WHERE id = :slot_id"""
    ),
    _REMIND,
    text(
        """INSERT INTO calendar.appointments
            (id, tenant_id, slot_id, calendar_event_id, investor_id, agent_id, status,
             created_at, updated_at, pending_expires_at)
        VALUES (:id, :tenant_id, :slot_id, :event_id, :investor_id, :agent_id, :status,
             :created_at, :created_at, :pending_expires_at)"""
    ),
]
