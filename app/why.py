"""Why one appointment has expired, or has not: a diagnosis from the data, the locks and the law."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from app.domain.appointment import AppointmentStatus
from app.domain.law import Refusal
from app.domain.outbox import APPOINTMENT_CANCELLED, EVENT_STATUS_CHANGED, message_id
from app.store import bookings, brake, errors
from app.store import why as store
from app.store.brake import Brake
from app.store.why import Holder, Situation, Told

TABLE_LOCKED = "55P03"
TRIES = 3
"""A lock that is let go between being met and being looked up is tried again."""
_CHANGES = 100  # so many changes back an ending may lie


class Verdict(StrEnum):
    """The one reason that counts."""

    MISSING = "missing"
    CONFIRMED = "confirmed"
    ENDED = "ended"
    UNKNOWN_STATUS = "unknown_status"
    NO_DEADLINE = "no_deadline"
    NOT_DUE = "not_due"
    IN_HAND = "in_hand"
    LOCKED = "locked"
    POISON = "poison"
    PAUSED = "paused"
    NO_CYCLE = "no_cycle"
    NEXT_CYCLE = "next_cycle"


@dataclass(frozen=True, slots=True)
class WhyOptions:
    """What the settings say about cycles."""

    interval_seconds: float = 60
    max_duration_seconds: float = 30
    batch_size: int = 200
    retention_days: float = 7

    @property
    def silence(self) -> timedelta:
        """After so long without a successful cycle something is down."""
        return timedelta(seconds=2 * self.interval_seconds + self.max_duration_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The verdict and what it rests on. `objection` is what the law says to an expiry now."""

    appointment_id: UUID
    verdict: Verdict
    situation: Situation | None = None
    messages: tuple[Told, ...] = ()
    holders: tuple[Holder, ...] = ()
    objection: str | None = None
    brake: Brake | None = None


def diagnose(engine: Engine, appointment_id: UUID, options: WhyOptions) -> Answer:
    """Look, try the locks as a cycle would, and ask the law; nothing is changed."""
    try:
        return _why(engine, appointment_id, options)
    except SQLAlchemyError as error:
        if errors.sqlstate(error) != TABLE_LOCKED:
            raise
    with engine.begin() as connection:
        holders = tuple(store.table_holders(connection))
    return Answer(appointment_id=appointment_id, verdict=Verdict.LOCKED, holders=holders)


def _why(engine: Engine, appointment_id: UUID, options: WhyOptions) -> Answer:
    seconds = options.max_duration_seconds + options.interval_seconds
    with engine.begin() as connection:
        found = store.situation(connection, appointment_id, seconds)
        if found is None:
            return Answer(appointment_id=appointment_id, verdict=Verdict.MISSING)
        if found.status != AppointmentStatus.PENDING:
            return Answer(
                appointment_id=appointment_id,
                verdict=_past(found.status),
                situation=found,
                messages=store.told(connection, _message_ids(appointment_id, found)),
            )
    if found.pending_expires_at is None:
        return Answer(appointment_id=appointment_id, verdict=Verdict.NO_DEADLINE, situation=found)
    if found.pending_expires_at >= found.now:
        return Answer(appointment_id=appointment_id, verdict=Verdict.NOT_DUE, situation=found)
    return _overdue(engine, appointment_id, found, options)


def _past(status: str) -> Verdict:
    if status == AppointmentStatus.CONFIRMED:
        return Verdict.CONFIRMED
    return Verdict.ENDED if status in set(AppointmentStatus) else Verdict.UNKNOWN_STATUS


def _message_ids(appointment_id: UUID, found: Situation) -> list[UUID]:
    """Those of the ending, or of a change shortly before the last one (O6)."""
    told = [(APPOINTMENT_CANCELLED, appointment_id, found.version)]
    if found.calendar_event_id and found.event_version:
        told.append((EVENT_STATUS_CHANGED, found.calendar_event_id, found.event_version))
    return [
        message_id(topic, aggregate_id, about)
        for topic, aggregate_id, version in told
        for about in range(version, max(0, version - _CHANGES), -1)
    ]


def _overdue(engine: Engine, appointment_id: UUID, found: Situation, options: WhyOptions) -> Answer:
    holders, objection = _try(engine, appointment_id, found)
    with engine.begin() as connection:
        pulled = brake.current(connection)
    if holders:
        ours = found.running and all(h.application == found.application for h in holders)
        verdict = Verdict.IN_HAND if ours else Verdict.LOCKED
    elif objection or found.sqlstate:
        verdict = Verdict.POISON
    elif pulled:
        verdict = Verdict.PAUSED
    elif found.last_success is None or found.now - found.last_success > options.silence:
        verdict = Verdict.NO_CYCLE
    else:
        verdict = Verdict.NEXT_CYCLE
    return Answer(
        appointment_id=appointment_id,
        verdict=verdict,
        situation=found,
        holders=holders,
        objection=objection,
        brake=pulled,
    )


def _try(
    engine: Engine, appointment_id: UUID, found: Situation
) -> tuple[tuple[Holder, ...], str | None]:
    """Who holds a part; when nobody does, what the law objects to."""
    for _ in range(TRIES):
        with engine.connect() as connection:
            held = store.held_parts(connection, appointment_id, found)
            if not held:
                return (), _objection(connection, appointment_id, found)
            connection.rollback()  # our own locks on the other parts
            holders = [holder for part in held for holder in store.holders(connection, part)]
        if holders:
            return tuple(holders), None
    return (), None


def _objection(connection: Connection, appointment_id: UUID, found: Situation) -> str | None:
    """What the law says to an expiry now; every part is locked by us, and let go at once."""
    booking = bookings.lock_booking(connection, appointment_id)
    connection.rollback()
    try:
        if booking is not None:
            booking.expire(found.now, "why")
    except Refusal as refusal:
        if refusal.noun != "appointment":  # that one has just been moved by somebody
            return refusal.rule
    return None
