"""Outbox message: what is said to other contexts about one change, and how (contract v1).

Field names, topics and reasons are contracts of section 6; nothing here may be renamed within v1.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from uuid import UUID, uuid5

CONTRACT_VERSION = 1
APPOINTMENT_CANCELLED = "pin.calendar.appointment-cancelled.v1"
EVENT_STATUS_CHANGED = "pin.calendar.event-status-changed.v1"
TOPICS = (APPOINTMENT_CANCELLED, EVENT_STATUS_CHANGED)

_written = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_MESSAGE_IDS = UUID("6a2f1c1e-6f0e-5f0a-9d0c-8b6d2f7f4f10")


class Reason(StrEnum):
    """Why an appointment ended."""

    EXPIRED = "Expired"
    DECLINED = "Declined"
    CANCELLED_BY_INVESTOR = "CancelledByInvestor"
    CANCELLED_BY_AGENT = "CancelledByAgent"


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """One message as it is stored and sent: `payload` is the document's very text."""

    message_id: UUID
    topic: str
    key: str
    payload: str
    headers: dict[str, str]


def message_id(topic: str, aggregate_id: UUID, version: int) -> UUID:
    """The id that this change has always had and will always have, even after a restore (O6)."""
    return uuid5(_MESSAGE_IDS, f"{topic}/{aggregate_id}/{version}")


def timestamp(moment: datetime) -> str:
    """A point in time as messages spell it: ISO 8601, UTC, microseconds, Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def compose(
    topic: str,
    aggregate_id: UUID,
    version: int,
    fields: dict[str, object],
    correlation_id: str,
    traceparent: str | None = None,
) -> OutboxMessage:
    """One message about the change that gave `aggregate_id` its `version`.

    It travels under the trace context of what made the change, or under one of its own.
    """
    identity = message_id(topic, aggregate_id, version)
    document = {"ContractVersion": CONTRACT_VERSION, **fields, "CorrelationId": correlation_id}
    return OutboxMessage(
        message_id=identity,
        topic=topic,
        key=str(aggregate_id),
        payload=_written(document),
        headers={
            "correlation-id": correlation_id,
            "traceparent": traceparent or untraced(correlation_id, identity),
        },
    )


def untraced(correlation_id: str, identity: UUID) -> str:
    """A W3C trace context that nobody records: a trace per run, a span per message, not sampled."""
    return f"00-{_trace(correlation_id)}-{identity.hex[:16]}-00"


@lru_cache(maxsize=16)
def _trace(correlation_id: str) -> str:
    """Run ids are any text; a Celery task id is a UUID, but need not be."""
    try:
        return UUID(correlation_id).hex
    except ValueError:
        return uuid5(_MESSAGE_IDS, correlation_id).hex
