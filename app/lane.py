"""A lane of a cycle: one connection, taking item after item.

An item's way: claim -> the law -> write -> commit; two statements, one transaction of its own, so
that items share no fate. Its commit takes the next one's claim along.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.agenda import Turn
from app.cycle import Cycle
from app.domain.booking import Ending
from app.domain.law import Refusal
from app.prepared import is_session
from app.store import claims, endings, errors, failures
from app.store.claims import Claim, Wanted
from app.store.failures import Failure
from app.store.runs import Outcome


@dataclass(frozen=True, slots=True)
class Item:
    """What a lane has in hand: its turn, and the appointment that it locked for it, if any."""

    turn: Turn
    claim: Claim | None
    began: int
    """The claim, in nanoseconds since the epoch."""


@dataclass
class Lane:
    """One connection at work for a cycle."""

    cycle: Cycle
    connection: Connection
    next_turn: Turn | None = None
    """Taken before a commit that then failed."""

    def work(self) -> None:
        """Item by item until the agenda is over; when it breaks, all lanes end after their item."""
        try:
            for statement in (claims.CLAIM_NEXT, claims.CLAIM_ONE, endings.SAVE_ENDING):
                statement.prepare(self.connection)
            self.connection.rollback()
            item = None
            while item := item or self.take():
                item = self.attempt(item)
        except BaseException:
            self.cycle.agenda.end(Outcome.FAILED)
            raise

    def take(self) -> Item | None:
        """The next item, claimed in a transaction of its own; None when the cycle is over."""
        agenda, kept = self.cycle.agenda, self.next_turn
        turn, self.next_turn = agenda.keep(kept) if kept else agenda.take(), None
        if turn is None:
            return None
        began = time.time_ns()
        return Item(turn, claims.claim(self.connection, self.wanted(turn)), began)

    def wanted(self, turn: Turn) -> Wanted:
        """What this turn is for."""
        return Wanted(self.cycle.as_of, self.cycle.cursor, turn.retry)

    def attempt(self, item: Item) -> Item | None:
        """One appointment in one transaction: all of its cascade or none of it (C3).

        Returns the next item if it was claimed with the commit.
        """
        claim = self.admitted(item)
        if claim is None:
            self.connection.rollback()
            self.cycle.agenda.give_back(expired=False)
            return None
        with self.cycle.trace(claim.booking.appointment, item.began) as traceparent:
            following = self.expire(claim, traceparent)
        return following() if following else None

    def admitted(self, item: Item) -> Claim | None:
        """What is to be expired now; None: nobody is left, it is held, or was tried before."""
        agenda, claim, retry = self.cycle.agenda, item.claim, item.turn.retry
        if retry is not None and (claim is None or claim.held_part):
            self.cycle.held.append(retry)
            return None
        if claim is None:
            agenda.nobody_left()
            return None
        if retry is None:
            self.cycle.passed(claim.position)
        admitted = not claim.held_part and agenda.admit(claim.booking.appointment.id)
        return claim if admitted else None

    def expire(self, claim: Claim, traceparent: str | None) -> Callable[[], Item] | None:
        """What the law says, written and committed, or rolled back."""
        appointment_id = claim.booking.appointment.id
        try:
            ending = claim.booking.expire(self.cycle.as_of, self.cycle.report.run_id, traceparent)
            written = endings.save_ending(self.connection, ending)
            following = self.commit(written)
        except endings.VersionConflictError as conflict:
            self.lose(appointment_id, errors.failure(conflict))
        except Refusal as refusal:
            self.fail(appointment_id, Failure(refusal.rule))
        except SQLAlchemyError as error:
            if errors.is_everybodys(error):
                raise
            self.fail(appointment_id, errors.failure(error))
        except Exception as error:  # noqa: BLE001 - C4: anything unexpected costs this item, and is told
            self.fail(appointment_id, errors.failure(error))
        else:
            self.expired(claim, ending)
            return following
        self.cycle.agenda.give_back(expired=False)
        return None

    def commit(self, written: str) -> Callable[[], Item] | None:
        """Commit; if there is a turn to be had, claim for it in the same round trip.

        Not where a session is shared: others come in between two transactions. What became of the
        claim is told by a call of what is returned.
        """
        if is_session(self.connection):
            self.next_turn = self.cycle.agenda.take_free()
        if self.next_turn is None:
            self.connection.commit()
            return None
        began = time.time_ns()
        came = claims.commit_and_claim(self.connection, self.wanted(self.next_turn), written)
        turn, self.next_turn = self.next_turn, None
        return lambda: Item(turn, came(), began)

    def expired(self, claim: Claim, ending: Ending) -> None:
        """The bound is used up by one; count and tell."""
        self.cycle.agenda.give_back(expired=True)
        self.cycle.expired(ending, claim.position.pending_expires_at)

    def fail(self, appointment_id: UUID, failure: Failure) -> None:
        """Roll the item back, keep why, and tell (C4)."""
        self.keep(appointment_id, failure)
        self.cycle.failed(appointment_id, failure)

    def lose(self, appointment_id: UUID, failure: Failure) -> None:
        """What was read has changed: a rival has won (R2), unless it is Pending still."""
        if self.keep(appointment_id, failure):
            self.cycle.failed(appointment_id, failure)

    def keep(self, appointment_id: UUID, failure: Failure) -> bool:
        """Roll back, and keep why in a transaction of its own; false: it is no longer Pending."""
        self.connection.rollback()
        try:
            pending = failures.record(
                self.connection, appointment_id, failure, self.cycle.as_of, self.cycle.report.run_id
            )
            self.connection.commit()
        except SQLAlchemyError as error:
            if errors.is_everybodys(error):
                raise
            self.connection.rollback()  # e.g. somebody holds the kept row: the log has the cause
            self.cycle.unkept.append(appointment_id)
            return True
        return pending
