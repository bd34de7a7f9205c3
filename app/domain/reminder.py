"""Event reminder: pending until it is sent, or skipped with its event."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from app.domain.law import Refusal


class ReminderStatus(StrEnum):
    """Statuses the law knows."""

    PENDING = "Pending"
    SENT = "Sent"
    SKIPPED = "Skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReminder:
    """A child of its event; it has no version of its own."""

    id: UUID
    calendar_event_id: UUID
    status: str
    updated_at: datetime

    def skip(self, as_of: datetime) -> "EventReminder":
        """Pending -> Skipped (event-reminder.md, rule 3)."""
        if self.status != ReminderStatus.PENDING:
            raise Refusal("reminder", self.id, found=self.status, wanted=ReminderStatus.PENDING)
        return replace(self, status=ReminderStatus.SKIPPED, updated_at=as_of)
