"""What a cycle reads and locks: one overdue appointment at a time, with all that follows it (C2).

A claim never waits: what somebody else holds is passed over. It takes the lowest free row behind a
cursor, which is also the lower bound of the index scan: dead entries in front of it, left by what
has expired before, cost nothing even while an old snapshot keeps them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn
from uuid import UUID

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from app.database import FIRST_INSTANT, LAST_INSTANT
from app.domain.appointment import Appointment
from app.domain.booking import Booking
from app.domain.event import CalendarEvent
from app.domain.slot import Slot
from app.prepared import Prepared, Row
from app.store import endings
from app.store.rows import RIVAL_HOLDS_SLOT, booking, columns

OVERDUE = "a.status = 'Pending' AND a.pending_expires_at < :as_of"
"""C1. Status as a literal: a parameter could lose the partial index under a generic plan."""

# For rows that are known by their key: a CASE proves no partial index, so that the key's own is
# taken even where statistics believe that nothing is pending.
STILL_OVERDUE = f"CASE WHEN {OVERDUE} THEN true END"

# A scalar subquery, not NOT EXISTS: it stays one index probe per row whatever the statistics say.
NEVER_FAILED = """(SELECT true FROM calendar.expiry_failures f WHERE f.appointment_id = a.id)
        IS NULL"""

# The parts are locked one by one behind the appointment; joined under one lock clause, every row
# that somebody else holds would be joined first. Whether a part that did not lock is held by
# another or missing, a plain look at its key tells.
_CLAIM = f"""
WITH appointment AS MATERIALIZED (
    SELECT {columns(Appointment)} FROM calendar.appointments a
    WHERE {{which}}
    FOR NO KEY UPDATE OF a SKIP LOCKED
), slot AS MATERIALIZED (
    SELECT {columns(Slot)} FROM calendar.availability_slots
    WHERE id = (SELECT slot_id FROM appointment)
    FOR NO KEY UPDATE SKIP LOCKED
), event AS MATERIALIZED (
    SELECT {columns(CalendarEvent)} FROM calendar.calendar_events
    WHERE id = (SELECT calendar_event_id FROM appointment)
    FOR NO KEY UPDATE SKIP LOCKED
), reminder AS MATERIALIZED (
    SELECT id, updated_at FROM calendar.event_reminders
    WHERE calendar_event_id = (SELECT id FROM event) AND status = 'Pending'
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT {columns(Appointment, "appointment")},
    {columns(Slot, "slot")},
    {columns(CalendarEvent, "event")},
    (SELECT array_agg(id) FROM reminder) AS reminder_ids,
    (SELECT array_agg(updated_at) FROM reminder) AS reminder_updated_at,
    {RIVAL_HOLDS_SLOT},
    CASE
        WHEN slot.id IS NULL AND EXISTS (
            SELECT FROM calendar.availability_slots s WHERE s.id = appointment.slot_id
        ) THEN 'slot'
        WHEN event.id IS NULL AND EXISTS (
            SELECT FROM calendar.calendar_events e WHERE e.id = appointment.calendar_event_id
        ) THEN 'event'
        WHEN (SELECT count(*) FROM reminder) < (
            SELECT count(*) FROM calendar.event_reminders r
            WHERE r.calendar_event_id = event.id AND r.status = 'Pending'
        ) THEN 'reminder'
    END AS held_part
FROM appointment LEFT JOIN slot ON true LEFT JOIN event ON true
"""

CLAIM_NEXT = Prepared(
    "claim_next",
    {"as_of": "timestamptz", "after_at": "timestamptz", "after_id": "uuid"},
    _CLAIM.format(
        which=f"""{OVERDUE} AND (a.pending_expires_at, a.id) > (:after_at, :after_id)
    AND {NEVER_FAILED}
    ORDER BY a.pending_expires_at, a.id LIMIT 1"""
    ),
)
CLAIM_ONE = Prepared(
    "claim_one",
    {"as_of": "timestamptz", "id": "uuid"},
    _CLAIM.format(which=f"a.id = :id AND {STILL_OVERDUE}"),
)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the order of expiry: oldest deadline first, equal ones by id."""

    pending_expires_at: datetime
    appointment_id: UUID


START = Position(FIRST_INSTANT, UUID(int=0))
END = Position(LAST_INSTANT, UUID(int=0))


@dataclass(frozen=True, slots=True)
class Claim:
    """One appointment locked by us; `held_part` names a part of it that somebody else holds."""

    booking: Booking
    held_part: str | None

    @property
    def position(self) -> Position:
        """Where it stands in the order of expiry."""
        appointment = self.booking.appointment
        if appointment.pending_expires_at is None:
            msg = "claimed without a deadline"
            raise AssertionError(msg)
        return Position(appointment.pending_expires_at, appointment.id)


@dataclass(frozen=True, slots=True)
class Opening:
    """What a cycle knows when it starts: the one clock's time, and how many are due (capped).

    `before_first` is where the cursor begins: dead entries in front of the oldest one that is due
    are passed once a cycle, not by each of its connections.
    """

    as_of: datetime
    due: int
    before_first: Position


def open_cycle(connection: Connection, batch_size: int) -> Opening:
    """Read `AsOf` from PostgreSQL, the clock that all instances and rivals share."""
    row = connection.execute(
        text(
            """
            SELECT now() AS as_of, count(*) AS due, min(pending_expires_at) AS first FROM (
                SELECT a.pending_expires_at FROM calendar.appointments a
                WHERE a.status = 'Pending' AND a.pending_expires_at < now()
                ORDER BY a.pending_expires_at, a.id LIMIT :batch_size
            ) due
            """
        ),
        {"batch_size": batch_size},
    ).one()
    return Opening(row.as_of, row.due, Position(row.first or FIRST_INSTANT, UUID(int=0)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to claim: the oldest overdue one behind `after` that never failed, or `appointment_id`.

    Either way only if it is overdue, and nobody holds it.
    """

    as_of: datetime
    after: Position
    appointment_id: UUID | None = None

    @property
    def statement(self) -> Prepared:
        """Each is prepared under its own name."""
        return CLAIM_NEXT if self.appointment_id is None else CLAIM_ONE

    @property
    def values(self) -> dict[str, object]:
        """Of the statement's parameters."""
        if self.appointment_id is not None:
            return {"as_of": self.as_of, "id": self.appointment_id}
        after_at, after_id = _at(self.after), self.after.appointment_id
        return {"as_of": self.as_of, "after_at": after_at, "after_id": after_id}


def claim(connection: Connection, wanted: Wanted) -> Claim | None:
    """Lock it with all its parts; None: there is none to be had."""
    return _claim(wanted.statement.run(connection, wanted.values))


def commit_and_claim(
    connection: Connection, wanted: Wanted, written: str
) -> Callable[[], Claim | None]:
    """Commit the transaction of this id, and claim in the next: one round trip for both.

    An error means that it is not committed, or that PostgreSQL cannot be asked. What came of the
    claim, its error raised, is told by a call of what is returned.
    """
    try:
        came = wanted.statement.commit_and_run(connection, wanted.values)
    except DBAPIError as error:
        if not endings.is_committed(connection, written):
            raise
        of_claim = error

        def failed() -> NoReturn:
            raise of_claim

        return failed
    return lambda: _claim(came())


def _claim(row: Row | None) -> Claim | None:
    return None if row is None else Claim(booking(row), row[-1])


def _at(position: Position) -> datetime | str:
    """The very first deadline of Python's calendar stands for all before it."""
    return position.pending_expires_at if position > START else "-infinity"


def count_passed_over(
    connection: Connection, opening: Opening, upto: Position, tried: list[UUID], held: list[UUID]
) -> int:
    """`SkippedLockedCount` (C6): who is still overdue although the cycle came by.

    From the first up to a position: all that never failed, except those in `tried` (whose failure
    could not be kept). Of those that failed before: the ones in `held`, met in somebody else's
    hands.
    """
    return int(
        connection.execute(
            _PASSED_OVER,
            {
                "as_of": opening.as_of,
                "from_at": _at(opening.before_first),
                "upto_at": upto.pending_expires_at,
                "upto_id": upto.appointment_id,
                "tried": tried,
                "held": held,
            },
        ).scalar_one()
    )


_PASSED_OVER = text(
    f"""
    SELECT (
        SELECT count(*) FROM calendar.appointments a
        WHERE {OVERDUE} AND a.pending_expires_at >= :from_at
          AND (a.pending_expires_at, a.id) <= (:upto_at, :upto_id)
          AND a.id <> ALL (CAST(:tried AS uuid[])) AND {NEVER_FAILED}
    ) + (
        SELECT count(*) FROM calendar.appointments a
        WHERE {STILL_OVERDUE} AND a.id = ANY (CAST(:held AS uuid[]))
    )
    """
)
