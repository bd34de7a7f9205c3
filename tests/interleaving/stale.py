"""Writes with a version that somebody has raised meanwhile (R2): what each leaves behind."""

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from sqlalchemy import Connection

from app.domain.booking import Booking
from app.store import bookings, claims, endings
from tests.world import Made, World

TABLES = {
    "appointment": "appointments",
    "slot": "availability_slots",
    "event": "calendar_events",
}
Write = Callable[[Connection, Booking], object]


def _expire(world: World) -> Write:
    as_of = world.now()
    return lambda connection, found: endings.save_ending(
        connection, found.expire(as_of, str(uuid4()))
    )


def _confirm(world: World) -> Write:
    as_of = world.now()
    return lambda connection, found: bookings.save_appointment(
        connection, found.appointment.confirm(as_of)
    )


def _book(world: World) -> Write:
    as_of = world.now()

    def write(connection: Connection, found: Booking) -> None:
        assert found.slot is not None
        appointment = replace(found.appointment, id=uuid4(), calendar_event_id=uuid4())
        slot = replace(found.slot, version=found.slot.version + 1, updated_at=as_of)
        bookings.save_new_booking(connection, appointment, slot, ())

    return write


WRITES = {
    "expire": (_expire, ("appointment", "slot", "event")),
    "confirm": (_confirm, ("appointment",)),
    "book": (_book, ("slot",)),
}


def violations(world: World) -> list[str]:
    """Every write, with every part that it is to change raised under it; what should not be."""
    return [
        complaint
        for name, (prepare, parts) in WRITES.items()
        for part in parts
        for complaint in _try(world, name, prepare(world), part)
    ]


def _try(world: World, name: str, write: Write, part: str) -> list[str]:
    made = world.appointment()
    with world.engine.connect() as connection:
        claims.CLAIM_ONE.prepare(connection)
        endings.SAVE_ENDING.prepare(connection)
        claim = claims.claim(connection, claims.Wanted(world.now(), claims.START, made.appointment))
        assert claim is not None
        connection.rollback()  # its locks are gone, what it has read is now old
        raise_version(world, made, part)
        before = world.state(made)
        try:
            write(connection, claim.booking)
        except endings.VersionConflictError:
            connection.rollback()
            return [] if world.state(made) == before else [f"R2: {name} left something behind"]
        connection.rollback()
        return [f"R2: {name} went over a newer version of the {part}"]


def raise_version(world: World, made: Made, part: str) -> None:
    """What any other writer does."""
    world.execute(
        f"UPDATE calendar.{TABLES[part]} SET version = version + 1 WHERE id = :id",
        id=getattr(made, part),
    )
