"""Whose turn it is in a cycle: the bound, the time, the stop, and each appointment once (S3, S4).

Shared by the cycle's connections; knows no database. First come those that never failed, oldest
deadline first; then, longest untried first, those that failed in an earlier cycle. Of the bound a
tenth is kept for these, so that a backlog does not keep them from being tried in every cycle; what
they leave of it goes to the others again.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.store.runs import Outcome


@dataclass(frozen=True, slots=True)
class Turn:
    """The right to attempt one appointment: the next that never failed, or this one again."""

    retry: UUID | None


class Agenda:
    """Hands out turns until the bound, the time or the work is used up."""

    def __init__(
        self,
        *,
        batch_size: int,
        seconds: float,
        stopping: Callable[[], bool],
        failed_before: Sequence[UUID],
    ) -> None:
        self._permits = batch_size
        self._kept = max(1, batch_size // 10) if batch_size > 1 else 0
        self._deadline = time.monotonic() + seconds
        self._stopping = stopping
        self._failed_before = iter(failed_before)
        self._changed = threading.Condition()
        self._in_hand = 0
        self._never_failed_left = True
        self.attempted: set[UUID] = set()
        self.outcome = Outcome.COMPLETED

    @property
    def exhausted(self) -> bool:
        """Whether everybody who never failed has been passed."""
        return not self._never_failed_left

    def take(self) -> Turn | None:
        """The right to attempt one; None when the cycle is over.

        The bound counts what expires, not what is tried: while its rest is in other hands, wait
        whether they use it. So whoever has a turn in hand must not call this, but `take_free`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._permits or not self._in_hand or self._over())
            return self._take()

    def take_free(self) -> Turn | None:
        """The right to attempt one more; None when there is none at this moment."""
        with self._changed:
            return self._take()

    def keep(self, turn: Turn) -> Turn | None:
        """A turn that was taken and not used; None when the cycle is over meanwhile."""
        with self._changed:
            return None if self._over() else turn

    def _take(self) -> Turn | None:
        if self._over() or self._permits == 0:
            return None
        retry = None
        if not self._never_failed_left or self._permits <= self._kept:
            retry = next(self._failed_before, None)
            if retry is None:
                self._kept = 0
        if retry is None and not self._never_failed_left:
            return None
        self._permits -= 1
        self._in_hand += 1
        return Turn(retry)

    def give_back(self, *, expired: bool) -> None:
        """A turn is over; without an expiry, the bound has room for another."""
        with self._changed:
            self._in_hand -= 1
            if not expired:
                self._permits += 1
            self._changed.notify_all()

    def _over(self) -> bool:
        if self.outcome is Outcome.COMPLETED:
            if self._stopping():
                self.outcome = Outcome.STOPPED
            elif time.monotonic() >= self._deadline:
                self.outcome = Outcome.CUT_SHORT
        return self.outcome is not Outcome.COMPLETED

    def end(self, outcome: Outcome) -> None:
        """Hand out no further turn; items in hand are finished."""
        with self._changed:
            self.outcome = outcome
            self._changed.notify_all()

    def admit(self, appointment_id: UUID) -> bool:
        """Whether it is attempted for the first time in this cycle, whichever connection tries."""
        with self._changed:
            if appointment_id in self.attempted:
                return False
            self.attempted.add(appointment_id)
            return True

    def nobody_left(self) -> None:
        """The claim came back empty: those that failed before are next."""
        with self._changed:
            self._never_failed_left = False
