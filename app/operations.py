"""The calendar's own operations (section 5): how bookings come to be, and the rivals of expiry.

Each is one transaction in the one lock order (S6), version-checked, and refused by the same law.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import Engine

from app.domain import booking as law
from app.domain.appointment import Appointment
from app.domain.booking import Booking, Ending
from app.domain.law import Refusal, instant
from app.store import bookings, endings

REMINDERS_BEFORE = (timedelta(hours=24), timedelta(hours=1))


def book(
    engine: Engine,
    slot_id: UUID,
    investor_id: UUID,
    as_of: datetime,
    reminders_before: tuple[timedelta, ...] = REMINDERS_BEFORE,
) -> Appointment:
    """An investor takes a slot; one winner per slot (INV-SLT-3)."""
    as_of = instant(as_of)
    with engine.begin() as connection:
        slot = bookings.lock_slot(connection, slot_id)
        if slot is None:
            raise Refusal("slot", slot_id, found="nothing", wanted="a slot")
        appointment, booked = law.book(
            slot, appointment_id=uuid4(), event_id=uuid4(), investor_id=investor_id, as_of=as_of
        )
        reminders_at = tuple(slot.start_at - before for before in reminders_before)
        bookings.save_new_booking(connection, appointment, booked, reminders_at)
    return appointment


def confirm(engine: Engine, appointment_id: UUID, as_of: datetime) -> None:
    """The agent says yes: the appointment alone changes, and nothing is published."""
    as_of = instant(as_of)
    with engine.begin() as connection:
        found = _found(bookings.lock_booking(connection, appointment_id), appointment_id)
        bookings.save_appointment(connection, found.appointment.confirm(as_of))


def decline(
    engine: Engine, appointment_id: UUID, as_of: datetime, correlation_id: str | None = None
) -> None:
    """The agent says no: the whole cascade, with its pair of messages."""
    as_of, correlation = instant(as_of), correlation_id or str(uuid4())
    _end(engine, appointment_id, lambda found: found.decline(as_of, correlation))


def cancel(
    engine: Engine,
    appointment_id: UUID,
    cancelled_by: UUID,
    as_of: datetime,
    correlation_id: str | None = None,
) -> None:
    """Investor or agent steps back: the whole cascade, with its pair of messages."""
    as_of, correlation = instant(as_of), correlation_id or str(uuid4())
    _end(engine, appointment_id, lambda found: found.cancel(as_of, cancelled_by, correlation))


def _end(engine: Engine, appointment_id: UUID, move: Callable[[Booking], Ending]) -> None:
    with engine.begin() as connection:
        endings.SAVE_ENDING.prepare(connection)
        found = _found(bookings.lock_booking(connection, appointment_id), appointment_id)
        endings.save_ending(connection, move(found))


def _found(booking: Booking | None, appointment_id: UUID) -> Booking:
    if booking is None:
        raise Refusal("appointment", appointment_id, found="nothing", wanted="an appointment")
    return booking
