"""The lanes of a cycle: a few connections side by side, each taking item after item.

An item's way: claim -> the law -> write -> commit; two statements, one transaction of its own, so
that items share no fate and their commits share the disk's flushes.
"""

import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from uuid import UUID

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from app import facts
from app.agenda import Agenda, Turn
from app.domain.booking import Ending
from app.domain.law import Refusal
from app.domain.slot import SlotStatus
from app.report import CycleReport
from app.store import brake, claims, endings, errors, failures
from app.store.runs import Outcome

LOOK_AT_THE_BRAKE_SECONDS = 0.5


@dataclass
class Lanes:
    """What the connections of one cycle share; the report is theirs to fill."""

    engine: Engine
    agenda: Agenda
    report: CycleReport
    opening: claims.Opening
    tell: facts.Tell
    trace: facts.Trace
    cursor: claims.Position = field(init=False)
    unkept: list[UUID] = field(default_factory=list)
    held: list[UUID] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Begin in front of the oldest one that is due."""
        self.cursor = self.opening.before_first

    @property
    def as_of(self) -> datetime:
        """The cycle's time."""
        return self.opening.as_of

    def run(self, count: int) -> None:
        """Work on so many connections until the agenda is over; then count who was passed over."""
        with (
            self.engine.connect() as beside,
            self.engine.connect() as first,
            ThreadPoolExecutor(count, "lane") as threads,
        ):
            # in copies of this thread's context, so that whoever follows the cycle follows on
            running = [threads.submit(copy_context().run, self.work, first)]
            running += [
                threads.submit(copy_context().run, self.further_lane) for _ in range(count - 1)
            ]
            try:
                while wait(running, LOOK_AT_THE_BRAKE_SECONDS).not_done:
                    self.obey_the_brake(beside)
            except BaseException:  # a signal, or the brake cannot be asked: finish what is held
                self.agenda.end(Outcome.STOPPED)
                raise
            for lane in running:
                lane.result()
            self.report.outcome = self.agenda.outcome
            upto = claims.END if self.agenda.exhausted else self.cursor
            with beside.begin():
                self.report.skipped_locked = claims.count_passed_over(
                    beside, self.opening, upto, self.unkept, self.held
                )

    def obey_the_brake(self, connection: Connection) -> None:
        """Stop between items once somebody has pulled it."""
        with connection.begin():
            pulled = brake.current(connection)
        if pulled:
            self.report.detail = pulled.sentence
            self.agenda.end(Outcome.STOPPED)

    def further_lane(self) -> None:
        """A lane that need not be: without a connection for it the cycle is slower, not failed."""
        try:
            opened = self.engine.connect()
        except SQLAlchemyError as error:
            self.report.detail = f"fewer lanes than asked for: {errors.sentence(error)}"
            return
        with opened as connection:
            self.work(connection)

    def work(self, connection: Connection) -> None:
        """One connection's lane: item by item; when it breaks, all lanes end after their item."""
        try:
            for statement in (claims.CLAIM_NEXT, claims.CLAIM_ONE, endings.SAVE_ENDING):
                statement.prepare(connection)
            connection.rollback()
            while self.take_turn(connection):
                pass
        except BaseException:
            self.agenda.end(Outcome.FAILED)
            raise

    def take_turn(self, connection: Connection) -> bool:
        """Attempt one appointment; false when the cycle is over."""
        with self.agenda.turn() as turn:
            if turn is not None:
                self.attempt(connection, turn)
            return turn is not None

    def attempt(self, connection: Connection, turn: Turn) -> None:
        """One appointment in one transaction: all of its cascade or none of it (C3)."""
        began = time.time_ns()
        claim = self.claim(connection, turn)
        if claim is None:
            connection.rollback()
            return
        with self.trace(claim.booking.appointment, began) as traceparent:
            self.expire(connection, turn, claim, traceparent)

    def expire(
        self, connection: Connection, turn: Turn, claim: claims.Claim, traceparent: str | None
    ) -> None:
        """What the law says, written and committed, or rolled back."""
        appointment_id = claim.booking.appointment.id
        try:
            ending = claim.booking.expire(self.as_of, self.report.run_id, traceparent)
            endings.save_ending(connection, ending)
            connection.commit()
        except endings.VersionConflictError as conflict:
            self.lose(connection, appointment_id, errors.failure(conflict))
        except Refusal as refusal:
            self.fail(connection, appointment_id, failures.Failure(refusal.rule))
        except SQLAlchemyError as error:
            if errors.is_everybodys(error):
                raise
            self.fail(connection, appointment_id, errors.failure(error))
        except Exception as error:  # noqa: BLE001 - C4: anything unexpected costs this item, and is told
            self.fail(connection, appointment_id, errors.failure(error))
        else:
            turn.expired = True
            self.expired(ending, claim.position.pending_expires_at)

    def claim(self, connection: Connection, turn: Turn) -> claims.Claim | None:
        """Lock the turn's appointment with all its parts; None: not this time."""
        if turn.retry is not None:
            claim = claims.claim_one(connection, self.as_of, turn.retry)
            if claim is None or claim.held_part:
                self.held.append(turn.retry)
                return None
        else:
            claim = claims.claim_next(connection, self.as_of, self.cursor)
            if claim is None:
                self.agenda.nobody_left()
                return None
            with self.lock:
                self.cursor = max(self.cursor, claim.position)
        if claim.held_part or not self.agenda.admit(claim.booking.appointment.id):
            return None
        return claim

    def fail(self, connection: Connection, appointment_id: UUID, failure: failures.Failure) -> None:
        """Roll the item back, keep why, and tell (C4)."""
        self.keep(connection, appointment_id, failure)
        self.failed(appointment_id, failure)

    def lose(self, connection: Connection, appointment_id: UUID, failure: failures.Failure) -> None:
        """What was read has changed: a rival has won (R2), unless it is Pending still."""
        if self.keep(connection, appointment_id, failure):
            self.failed(appointment_id, failure)

    def keep(self, connection: Connection, appointment_id: UUID, failure: failures.Failure) -> bool:
        """Roll back, and keep why in a transaction of its own; false: it is no longer Pending."""
        connection.rollback()
        try:
            pending = failures.record(
                connection, appointment_id, failure, self.as_of, self.report.run_id
            )
            connection.commit()
        except SQLAlchemyError as error:
            if errors.is_everybodys(error):
                raise
            connection.rollback()  # e.g. somebody holds the kept row: the log has the cause
            self.unkept.append(appointment_id)
            return True
        return pending

    def failed(self, appointment_id: UUID, failure: failures.Failure) -> None:
        """Count and tell."""
        with self.lock:
            self.report.failed += 1
        self.tell(facts.ItemFailed(appointment_id, failure))

    def late_seconds(self, deadline: datetime) -> float:
        """How long ago it was: by PostgreSQL's clock at `AsOf`, carried on by ours."""
        return (self.as_of - deadline).total_seconds() + time.monotonic() - self.began

    def expired(self, ending: Ending, deadline: datetime) -> None:
        """Count and tell, after the commit."""
        released = ending.slot.status == SlotStatus.AVAILABLE
        with self.lock:
            if released:
                self.report.released += 1
            else:
                self.report.slots_expired += 1
        self.tell(
            facts.AppointmentExpired(
                appointment_id=ending.appointment.id,
                slot_id=ending.slot.id,
                calendar_event_id=ending.event.id,
                tenant_id=ending.appointment.tenant_id,
                slot_outcome="released" if released else "expired",
                late_seconds=self.late_seconds(deadline),
            )
        )
