"""Availability slot: when it can be booked, and when it returns to the showcase."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from app.domain.law import Refusal


class SlotStatus(StrEnum):
    """Statuses the law knows."""

    AVAILABLE = "Available"
    BOOKED = "Booked"
    EXPIRED = "Expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A stretch of an agent's time that investors can book."""

    id: UUID
    tenant_id: UUID
    agent_id: UUID
    status: str
    start_at: datetime
    end_at: datetime
    min_lead_time_minutes: int
    auto_confirm: bool
    updated_at: datetime
    version: int

    @property
    def bookable_until(self) -> datetime:
        """The last moment at which somebody can still book it."""
        return self.start_at - timedelta(minutes=self.min_lead_time_minutes)

    def book(self, as_of: datetime) -> "Slot":
        """Available -> Booked; refused once the lead time has begun."""
        self._want(SlotStatus.AVAILABLE)
        if as_of > self.bookable_until:
            raise Refusal("slot", self.id, found="lead time begun", wanted="an earlier booking")
        return self._move(SlotStatus.BOOKED, as_of)

    def release(self, as_of: datetime) -> "Slot":
        """Booked -> Available while it can still be booked, else Booked -> Expired (INV-SLT-5)."""
        self._want(SlotStatus.BOOKED)
        usable = as_of <= self.bookable_until
        return self._move(SlotStatus.AVAILABLE if usable else SlotStatus.EXPIRED, as_of)

    def _want(self, status: SlotStatus) -> None:
        if self.status != status:
            raise Refusal("slot", self.id, found=self.status, wanted=status)

    def _move(self, to: SlotStatus, as_of: datetime) -> "Slot":
        return replace(self, status=to, updated_at=as_of, version=self.version + 1)
