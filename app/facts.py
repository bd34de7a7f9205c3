"""What the verbs report while they work, after it is so (after the commit): facts, not log lines.

Logs, metrics, traces and the wake-up of the publisher are derived from them at the edge. A listener
that fails is reported and never breaks the job.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from app.domain.appointment import Appointment
from app.store.failures import Failure
from app.store.runs import Job

STILL_RUNNING = "the previous run is still at work on this instance"
SlotOutcome = Literal["released", "expired"]


@dataclass(frozen=True, slots=True)
class CycleStarted:
    """A cycle begins at this `AsOf`."""

    run_id: str
    as_of: datetime


@dataclass(frozen=True, slots=True)
class BatchSelected:
    """So many are due, counted up to the batch's size."""

    count: int


@dataclass(frozen=True, slots=True)
class AppointmentExpired:
    """One cascade has been committed."""

    appointment_id: UUID
    slot_id: UUID
    calendar_event_id: UUID
    tenant_id: UUID
    slot_outcome: SlotOutcome
    late_seconds: float
    """From its PendingExpiresAt until the commit."""


@dataclass(frozen=True, slots=True)
class ItemFailed:
    """One appointment could not expire and stays Pending; the batch goes on (C4)."""

    appointment_id: UUID
    failure: Failure


@dataclass(frozen=True, slots=True)
class CycleEnded:
    """A cycle is over, with its five figures (C6)."""

    outcome: str
    result: dict[str, int]
    failed: int
    detail: str | None


class Answer(NamedTuple):
    """One message, by its identifiers, and why Kafka did not acknowledge it; None: it did."""

    message_id: str
    topic: str
    correlation_id: str | None
    traceparent: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class MessagesSent:
    """Kafka has had its time for these; began and ended in nanoseconds since the epoch."""

    began: int
    ended: int
    answers: Callable[[], Iterable[Answer]]
    """Made for who asks: most drains have nobody who follows single messages."""


@dataclass(frozen=True, slots=True)
class MessagesPublished:
    """Kafka has acknowledged messages that were written so many seconds ago."""

    seconds: list[float]


@dataclass(frozen=True, slots=True)
class MessageRefused:
    """Kafka refused a message for its own sake; set aside when it was the last try (O4)."""

    message_id: UUID
    topic: str
    error: str
    attempts: int
    set_aside: bool


@dataclass(frozen=True, slots=True)
class DrainEnded:
    """A drain of the outbox is over."""

    outcome: str
    result: dict[str, int]
    detail: str | None


@dataclass(frozen=True, slots=True)
class TickSkipped:
    """A tick did nothing, and why: its predecessor is at work (S1), or the brake is on."""

    job: Job
    reason: str


Fact = (
    CycleStarted
    | BatchSelected
    | AppointmentExpired
    | ItemFailed
    | CycleEnded
    | MessagesSent
    | MessagesPublished
    | MessageRefused
    | DrainEnded
    | TickSkipped
)
Tell = Callable[[Fact], None]
Trace = Callable[[Appointment, int], AbstractContextManager[str | None]]
"""Follows one item, whose claim began at this nanosecond since the epoch, to the end of the block.

It says under which W3C trace context the item's messages travel; None: nobody follows.
"""


def nobody(_fact: Fact) -> None:
    """Nobody listens."""


def untraced(_appointment: Appointment, _began: int) -> AbstractContextManager[None]:
    """Nobody follows."""
    return nullcontext()


def tell_all(*listeners: Tell) -> Tell:
    """One teller for several listeners, each shielded from the job and from the others."""

    def tell(fact: Fact) -> None:
        for listener in listeners:
            try:
                listener(fact)
            except Exception:  # whatever a listener does wrong, the job's work is committed
                logging.getLogger(__name__).exception("listener failed")

    return tell
