"""How a booking is read: columns are the nouns' own fields, for the cycle and its rivals alike."""

from dataclasses import fields
from typing import Any

from sqlalchemy import RowMapping

from app.domain.appointment import Appointment
from app.domain.booking import Booking
from app.domain.event import CalendarEvent
from app.domain.reminder import EventReminder, ReminderStatus
from app.domain.slot import Slot

Noun = type[Appointment] | type[Slot] | type[CalendarEvent] | type[EventReminder]


def columns(noun: Noun, table: str | None = None) -> str:
    """The noun's columns; with `table`, each under the name `table_column` for a joined row."""
    names = [field.name for field in fields(noun)]
    if table is None:
        return ", ".join(names)
    return ", ".join(f"{table}.{name} AS {table}_{name}" for name in names)


RIVAL_HOLDS_SLOT = """EXISTS (
        SELECT FROM calendar.appointments other
        WHERE other.slot_id = appointment.slot_id AND other.id <> appointment.id
          AND other.status IN ('Pending', 'Confirmed')
    ) AS rival_holds_slot"""
"""Needs an `appointment` in the statement around it."""


def booking(row: RowMapping) -> Booking:
    """The booking of one joined row; a slot or event that was not found is None."""
    event_id = row["event_id"]
    return Booking(
        appointment=Appointment(**_fields_of(Appointment, "appointment", row)),
        slot=None if row["slot_id"] is None else Slot(**_fields_of(Slot, "slot", row)),
        event=None
        if event_id is None
        else CalendarEvent(**_fields_of(CalendarEvent, "event", row)),
        reminders=tuple(
            EventReminder(
                id=reminder_id,
                calendar_event_id=event_id,
                status=ReminderStatus.PENDING,
                updated_at=updated_at,
            )
            for reminder_id, updated_at in zip(
                row["reminder_ids"] or (), row["reminder_updated_at"] or (), strict=True
            )
        ),
        rival_holds_slot=row["rival_holds_slot"],
    )


def _fields_of(noun: Noun, table: str, row: RowMapping) -> dict[str, Any]:
    return {field.name: row[f"{table}_{field.name}"] for field in fields(noun)}
