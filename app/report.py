"""What a cycle or a drain is asked for, and what it reports."""

from dataclasses import dataclass, field
from datetime import datetime

from app.store.brake import BrakeLimits
from app.store.runs import Outcome


@dataclass(frozen=True, slots=True)
class CycleOptions:
    """`AppointmentTimeoutOptions`: the bound (S3), the budget in seconds (S4), the connections."""

    batch_size: int = 200
    max_duration_seconds: float = 30
    connections: int = 4
    brake: BrakeLimits = field(default_factory=BrakeLimits)


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


DRAIN_LANES = 3
"""Connections of a drain with more than a batch to do: one claims, one sends, one marks."""


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """How large a batch is, and how long a cycle may be followed."""

    batch_size: int = 1000
    cycle_seconds: float = 40


@dataclass(slots=True)
class DrainReport:
    """How a drain ended and what it did."""

    run_id: str
    started_at: datetime | None = None
    outcome: Outcome = Outcome.COMPLETED
    published: int = 0
    refused: int = 0
    set_aside: int = 0
    duration_ms: int = 0
    detail: str | None = None

    def result(self) -> dict[str, int]:
        """Its figures, as kept and shown."""
        return {
            "PublishedCount": self.published,
            "RefusedCount": self.refused,
            "SetAsideCount": self.set_aside,
            "DurationMs": self.duration_ms,
        }
