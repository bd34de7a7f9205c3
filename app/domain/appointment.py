"""Appointment: its statuses and the only ways from one to another."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from app.domain.law import Refusal
from app.domain.slot import Slot

CONFIRMATION_WINDOW = timedelta(hours=24)


class AppointmentStatus(StrEnum):
    """Statuses the law knows; an adopter's further ones stay text and are never moved by it."""

    PENDING = "Pending"
    CONFIRMED = "Confirmed"
    DECLINED = "Declined"
    CANCELLED = "Cancelled"
    EXPIRED = "Expired"


ACTIVE = (AppointmentStatus.PENDING, AppointmentStatus.CONFIRMED)
"""What holds a slot."""

MOVES: dict[AppointmentStatus, tuple[AppointmentStatus, ...]] = {
    AppointmentStatus.CONFIRMED: (AppointmentStatus.PENDING,),
    AppointmentStatus.DECLINED: (AppointmentStatus.PENDING,),
    AppointmentStatus.CANCELLED: ACTIVE,
    AppointmentStatus.EXPIRED: (AppointmentStatus.PENDING,),
}
"""To a status, from these. Nothing leads back into Pending, nothing out of the other ends."""


def pending_expires_at(created_at: datetime, slot: Slot) -> datetime | None:
    """When an undecided appointment expires (D1): min(created + 24 h, start - lead time).

    None on auto-confirm. Refuses a booking that would have expired by the time it is made.
    """
    if slot.auto_confirm:
        return None
    deadline = min(created_at + CONFIRMATION_WINDOW, slot.bookable_until)
    if deadline <= created_at:
        raise Refusal("slot", slot.id, found="no time left to confirm", wanted="a later start")
    return deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Appointment:
    """An investor's booking of one slot. `status` is text: a poison row must load to be refused."""

    id: UUID
    tenant_id: UUID
    slot_id: UUID
    calendar_event_id: UUID
    investor_id: UUID
    agent_id: UUID
    status: str
    updated_at: datetime
    version: int
    pending_expires_at: datetime | None = None
    cancelled_by: UUID | None = None

    def is_overdue(self, as_of: datetime) -> bool:
        """Undecided past its deadline, strictly (C1); one without a deadline never is."""
        return self.pending_expires_at is not None and self.pending_expires_at < as_of

    def confirm(self, as_of: datetime) -> "Appointment":
        """The agent says yes."""
        return self._move(AppointmentStatus.CONFIRMED, as_of)

    def decline(self, as_of: datetime) -> "Appointment":
        """The agent says no."""
        return self._move(AppointmentStatus.DECLINED, as_of)

    def cancel(self, as_of: datetime, cancelled_by: UUID) -> "Appointment":
        """Investor or agent steps back; who did is kept in `CancelledBy`."""
        return replace(self._move(AppointmentStatus.CANCELLED, as_of), cancelled_by=cancelled_by)

    def expire(self, as_of: datetime) -> "Appointment":
        """Nobody decided in time: the only way into Expired (INV-APT-6); `CancelledBy` stays."""
        expired = self._move(AppointmentStatus.EXPIRED, as_of)
        if not self.is_overdue(as_of):
            raise Refusal("appointment", self.id, found="not overdue", wanted="overdue")
        return expired

    def _move(self, to: AppointmentStatus, as_of: datetime) -> "Appointment":
        if self.status not in MOVES[to]:
            wanted = " or ".join(MOVES[to])
            raise Refusal("appointment", self.id, found=self.status, wanted=wanted)
        return replace(self, status=to, updated_at=as_of, version=self.version + 1)
