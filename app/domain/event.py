"""Calendar event: the entry that an appointment puts into the agent's calendar."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from app.domain.law import Refusal


class EventStatus(StrEnum):
    """Statuses the law knows."""

    SCHEDULED = "Scheduled"
    CANCELLED = "Cancelled"
    COMPLETED = "Completed"


class EventOrigin(StrEnum):
    """Where an event came from; only an appointment's own event follows its appointment."""

    APPOINTMENT = "Appointment"
    MANUAL = "Manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEvent:
    """One event; its reminders are its children."""

    id: UUID
    tenant_id: UUID
    origin: str
    status: str
    updated_at: datetime
    version: int
    cancel_reason: str | None = None

    def cancel(self, as_of: datetime, reason: str) -> "CalendarEvent":
        """Scheduled -> Cancelled with its reason, for events of appointments only (INV-CAL-3)."""
        if self.origin != EventOrigin.APPOINTMENT:
            raise Refusal("event", self.id, found=self.origin, wanted=EventOrigin.APPOINTMENT)
        if self.status != EventStatus.SCHEDULED:
            raise Refusal("event", self.id, found=self.status, wanted=EventStatus.SCHEDULED)
        return replace(
            self,
            status=EventStatus.CANCELLED,
            cancel_reason=reason,
            updated_at=as_of,
            version=self.version + 1,
        )
