"""What the demo books: appointments of every kind, and how they stand before and after."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from uuid import UUID

from sqlalchemy import Engine, text

from app.cli.sample import KINDS, book
from app.domain.appointment import CONFIRMATION_WINDOW


@dataclass(frozen=True)
class Kind:
    """A kind of `python -m app sample`; `due_in` seconds instead of its own deadline."""

    title: str
    sample: str
    expires: bool
    due_in: float | None = None


SELLABLE = Kind("Overdue, the slot can be sold again", "overdue, slot can be sold again", True)
LAPSED = Kind("Overdue, the slot's lead time has begun", "overdue, lead time begun", True)
SOON = [Kind("Due while we watch", "due within a minute", True, due_in) for due_in in (16, 18, 20)]
CONFIRMED = Kind("Due as well, but the agent confirms", "due within a minute", False, 20)
WAITING = Kind("Waits for its agent until tomorrow", "waits for its agent", False)
AUTOMATIC = Kind("Confirmed by itself (auto-confirm)", "confirmed by itself", False)

AT_FIRST = [*[SELLABLE] * 7, *[LAPSED] * 4, *SOON, CONFIRMED, *[WAITING] * 2, AUTOMATIC]
BY_HAND = [
    replace(SELLABLE, title="Overdue at the cycle by hand, the slot can be sold again"),
    replace(LAPSED, title="Overdue at the cycle by hand, the slot's lead time has begun"),
]


@dataclass(frozen=True)
class Booked:
    """One appointment of ours."""

    kind: Kind
    id: UUID
    event_id: UUID
    deadline: datetime | None

    @property
    def name(self) -> str:
        """Enough of its id for people."""
        return short(self.id)

    def seconds_left(self, moment: datetime) -> float:
        """Until it expires by itself; for ever when it has no deadline."""
        return inf if self.deadline is None else (self.deadline - moment).total_seconds()


@dataclass(frozen=True)
class State:
    """How an appointment and all that follows it stand."""

    status: str
    version: int
    updated_at: datetime
    slot: str
    slot_version: int
    bookable_until: datetime
    event: str
    event_version: int
    cancel_reason: str | None
    pending: int
    skipped: int


def short(identifier: object) -> str:
    """The first characters of a UUID."""
    return str(identifier)[:8]


def now(engine: Engine) -> datetime:
    """PostgreSQL's time: the one clock."""
    with engine.begin() as connection:
        found: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return found


def book_all(engine: Engine, kinds: Iterable[Kind]) -> list[Booked]:
    """Book one appointment of each, by the calendar's own operation, in a database of ours."""
    booked: list[Booked] = []
    moment = now(engine)
    known = _bookings(engine).keys()
    for kind in kinds:
        book(engine, _booked_at(kind, moment), kind.sample)
        found = _bookings(engine)
        [identifier] = found.keys() - known
        known = found.keys()
        booked.append(Booked(kind, identifier, *found[identifier]))
    return booked


def _booked_at(kind: Kind, moment: datetime) -> datetime:
    """What `book` has to take for now, so that the deadline falls where the kind wants it."""
    if kind.due_in is None:
        return moment
    ago = KINDS[kind.sample][0]
    return moment + timedelta(seconds=kind.due_in) - (CONFIRMATION_WINDOW - ago)


def _bookings(engine: Engine) -> dict[UUID, tuple[UUID, datetime | None]]:
    with engine.begin() as connection:
        rows = connection.execute(
            text("SELECT id, calendar_event_id, pending_expires_at FROM calendar.appointments")
        )
        return {row.id: (row.calendar_event_id, row.pending_expires_at) for row in rows}


def states(engine: Engine, booked: Sequence[Booked]) -> dict[UUID, State]:
    """How they stand now, in one snapshot."""
    with engine.begin() as connection:
        rows = connection.execute(_STATES, {"ids": [one.id for one in booked]})
        return {identifier: State(*state) for identifier, *state in rows}


_STATES = text(
    """
    SELECT appointment.id, appointment.status, appointment.version, appointment.updated_at,
        slot.status, slot.version,
        slot.start_at - make_interval(mins => slot.min_lead_time_minutes),
        event.status, event.version, event.cancel_reason,
        (SELECT count(*) FROM calendar.event_reminders
         WHERE calendar_event_id = event.id AND status = 'Pending'),
        (SELECT count(*) FROM calendar.event_reminders
         WHERE calendar_event_id = event.id AND status = 'Skipped')
    FROM calendar.appointments appointment
    JOIN calendar.availability_slots slot ON slot.id = appointment.slot_id
    JOIN calendar.calendar_events event ON event.id = appointment.calendar_event_id
    WHERE appointment.id = ANY(:ids)
    """
)
