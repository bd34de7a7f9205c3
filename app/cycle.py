"""What the lanes of one cycle share: whose turn it is, how far they came, and what came of it."""

import time
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from uuid import UUID

from app import facts
from app.agenda import Agenda
from app.domain.booking import Ending
from app.domain.slot import SlotStatus
from app.report import CycleReport
from app.store import claims, failures


@dataclass
class Cycle:
    """One cycle at work; the report is its to fill."""

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

    def passed(self, position: claims.Position) -> None:
        """Somebody has claimed here: the others go on behind it."""
        with self.lock:
            self.cursor = max(self.cursor, position)

    def failed(self, appointment_id: UUID, failure: failures.Failure) -> None:
        """Count and tell."""
        with self.lock:
            self.report.failed += 1
        self.tell(facts.ItemFailed(appointment_id, failure))

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
                late_seconds=self._late_seconds(deadline),
            )
        )

    def _late_seconds(self, deadline: datetime) -> float:
        """How long ago it was: by PostgreSQL's clock at `AsOf`, carried on by ours."""
        return (self.as_of - deadline).total_seconds() + time.monotonic() - self.began
