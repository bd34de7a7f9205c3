"""Verb 1: one cycle of appointment-timeout. One transaction per appointment (section 4).

Several connections work side by side, each item still its own transaction, so that commits share
the disk's flushes. An item's way: claim -> the law -> write -> commit; two statements.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from uuid import UUID

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from app import facts, schema
from app.agenda import Agenda, Turn
from app.domain.booking import Ending
from app.domain.law import Refusal
from app.domain.slot import SlotStatus
from app.store import claims, endings, errors, failures, runs
from app.store.runs import Job, Outcome


@dataclass(frozen=True, slots=True)
class CycleOptions:
    """`AppointmentTimeoutOptions`: the bound (S3), the budget in seconds (S4), the connections."""

    batch_size: int = 200
    max_duration_seconds: float = 30
    connections: int = 4


@dataclass(slots=True)
class CycleReport:
    """How a cycle ended and what it did."""

    run_id: str
    as_of: datetime | None = None
    outcome: Outcome = Outcome.COMPLETED
    released: int = 0
    slots_expired: int = 0
    skipped_locked: int = 0
    failed: int = 0
    duration_ms: int = 0
    detail: str | None = None

    @property
    def expired(self) -> int:
        """Appointments expired: each slot went one of two ways."""
        return self.released + self.slots_expired

    def full(self, batch_size: int) -> bool:
        """Whether it used its bound up within its budget, so that more may be waiting."""
        return self.outcome is Outcome.COMPLETED and self.expired >= batch_size

    def result(self) -> dict[str, int]:
        """The five figures by the customer's names (C6)."""
        return {
            "ExpiredCount": self.expired,
            "SlotsReleasedCount": self.released,
            "SlotsExpiredCount": self.slots_expired,
            "SkippedLockedCount": self.skipped_locked,
            "DurationMs": self.duration_ms,
        }


def run_cycle(
    engine: Engine,
    options: CycleOptions,
    run_id: str,
    *,
    stopping: Callable[[], bool] = lambda: False,
    tell: facts.Tell = facts.nobody,
) -> CycleReport:
    """Expire what is overdue, keep the run's record, and report; a failure is an outcome.

    `engine` must allow `options.connections` + 1 connections. `stopping` is asked between items.
    """
    started = time.monotonic()
    report = CycleReport(run_id)
    try:
        with engine.begin() as connection:
            schema.check(connection)
            opening = claims.open_cycle(connection, options.batch_size)
            runs.start(connection, run_id, Job.APPOINTMENT_TIMEOUT, opening.as_of)
        report.as_of = opening.as_of
        tell(facts.CycleStarted(run_id, opening.as_of))
        tell(facts.BatchSelected(opening.due))
        if opening.due:
            _Cycle(engine, options, report, opening.as_of, stopping, tell).run(opening.due)
    except schema.SchemaError as error:  # refused before any row is touched
        report.outcome, report.detail = Outcome.FAILED, str(error)
    except SQLAlchemyError as error:  # infrastructure (C5): the next cycle retries
        report.outcome, report.detail = Outcome.FAILED, errors.sentence(error)
    except BaseException as error:  # a signal's SystemExit or a bug: recorded, then passed on
        report.outcome, report.detail = Outcome.FAILED, type(error).__name__
        raise
    finally:
        report.duration_ms = round((time.monotonic() - started) * 1000)
        _keep(engine, report)
        tell(facts.CycleEnded(report.outcome, report.result(), report.failed, report.detail))
    return report


def _keep(engine: Engine, report: CycleReport) -> None:
    """Close the run's record; when the database is away the log alone has it."""
    with suppress(SQLAlchemyError), engine.begin() as connection:  # told by the outcome already
        runs.finish(connection, report.run_id, report.outcome, report.result(), report.detail)


@dataclass
class _Cycle:
    """What the connections of one cycle share."""

    engine: Engine
    options: CycleOptions
    report: CycleReport
    as_of: datetime
    stopping: Callable[[], bool]
    tell: facts.Tell
    cursor: claims.Position = claims.START
    unkept: list[UUID] = field(default_factory=list)
    held: list[UUID] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def run(self, due: int) -> None:
        """Work until the agenda is over, then count who was passed over."""
        self.agenda = Agenda(
            batch_size=self.options.batch_size,
            seconds=self.options.max_duration_seconds,
            stopping=self.stopping,
            failed_before=failures.failed_before(self.engine, self.as_of),
        )
        with ThreadPoolExecutor(min(self.options.connections, due), "cycle") as threads:
            lanes = [threads.submit(self.work) for _ in range(min(self.options.connections, due))]
            try:
                for lane in lanes:
                    lane.result()
            except BaseException:  # a signal, while the lanes work: they finish what they hold
                self.agenda.end(Outcome.STOPPED)
                raise
        self.report.outcome = self.agenda.outcome
        upto = claims.END if self.agenda.exhausted else self.cursor
        with self.engine.begin() as connection:
            self.report.skipped_locked = claims.count_passed_over(
                connection, self.as_of, upto, self.unkept, self.held
            )

    def work(self) -> None:
        """One connection's lane: item by item; when it breaks, all lanes end after their item."""
        try:
            with self.engine.connect() as connection:
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
        claim = self.claim(connection, turn)
        if claim is None:
            connection.rollback()
            return
        appointment_id = claim.booking.appointment.id
        try:
            ending = claim.booking.expire(self.as_of, self.report.run_id)
            endings.save_ending(connection, ending)
            connection.commit()
        except endings.VersionConflictError:  # R2: a rival was faster, and nothing of ours is left
            connection.rollback()
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
            self.expired(ending)

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
        """Roll the item back, keep why in a transaction of its own, and tell (C4)."""
        connection.rollback()
        try:
            failures.record(connection, appointment_id, failure, self.as_of, self.report.run_id)
            connection.commit()
        except SQLAlchemyError as error:
            if errors.is_everybodys(error):
                raise
            connection.rollback()  # e.g. somebody holds the kept row: the log has the cause
            self.unkept.append(appointment_id)
        with self.lock:
            self.report.failed += 1
        self.tell(facts.ItemFailed(appointment_id, failure))

    def expired(self, ending: Ending) -> None:
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
            )
        )
