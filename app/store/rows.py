"""How a booking is read: columns are the nouns' own fields, for the cycle and its rivals alike."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

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


def booking(row: Sequence[Any]) -> Booking:
    """The booking of one joined row; a slot or event that was not found is None.

    In it the columns of the three nouns, two lists of the reminders', and whether there is a rival.
    """
    values = iter(row)
    appointment, slot, event = (dict(zip(noun, values, strict=False)) for noun in _NOUNS)
    reminder_ids, reminder_updated_at, rival_holds_slot, *_ = values
    return Booking(
        appointment=Appointment(**appointment),
        slot=None if slot["id"] is None else Slot(**slot),
        event=None if event["id"] is None else CalendarEvent(**event),
        reminders=tuple(
            EventReminder(
                id=reminder_id,
                calendar_event_id=event["id"],
                status=ReminderStatus.PENDING,
                updated_at=updated_at,
            )
            for reminder_id, updated_at in zip(
                reminder_ids or (), reminder_updated_at or (), strict=True
            )
        ),
        rival_holds_slot=rival_holds_slot,
    )


_NOUNS = [[field.name for field in fields(noun)] for noun in (Appointment, Slot, CalendarEvent)]
