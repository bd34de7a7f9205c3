"""The state of the work as gauges, read from PostgreSQL when somebody scrapes (section 8).

Every instance tells the same, so a dashboard takes the maximum, never the sum. The reads are
bounded: capped counts and first rows on partial indexes.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from threading import Lock

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from app import database
from app.store import status

FRESH_SECONDS = 1.0
"""Several scrapers at once cost one look."""
LIMIT = "2s"
"""A scrape has ten seconds by default: a database that takes longer counts as down."""

LAST_SUCCESS = "calendar_appointment_timeout_last_success_timestamp_seconds"
"""Told while the database is away as well: its age is what the alert goes by."""
OLDEST_TRANSACTION = "calendar_database_oldest_transaction_seconds"
"""Absent where the role may not see other sessions (it lacks pg_read_all_stats)."""

GAUGES = {
    "calendar_appointment_timeout_backlog": (
        "backlog",
        f"Pending appointments whose PendingExpiresAt has passed, up to {status.CAP}",
    ),
    "calendar_appointment_timeout_oldest_overdue_seconds": (
        "oldest_overdue_seconds",
        "How long the oldest of them is overdue",
    ),
    "calendar_appointment_timeout_poison_items": (
        "poison",
        "Appointments whose expiry keeps failing",
    ),
    "calendar_appointment_timeout_oldest_poison_seconds": (
        "oldest_poison_seconds",
        "How long the oldest of them has been failing",
    ),
    "calendar_appointment_timeout_brake_seconds": (
        "brake_seconds",
        "How long the brake has been on; 0: it is off",
    ),
    "calendar_outbox_backlog": (
        "outbox_backlog",
        f"Messages neither acknowledged nor discarded, up to {status.CAP}",
    ),
    "calendar_outbox_oldest_unpublished_seconds": (
        "oldest_unsent_seconds",
        "The outbox lag: age of the oldest message that waits for Kafka",
    ),
    "calendar_outbox_set_aside": (
        "set_aside",
        "Messages that Kafka refused for their own sake and that wait for a person",
    ),
    OLDEST_TRANSACTION: (
        "oldest_transaction_seconds",
        "Age of the oldest transaction of anybody that holds back vacuum",
    ),
    "calendar_appointment_timeout_last_tick_timestamp_seconds": (
        "last_tick",
        "When the newest cycle began, on whatever instance and whatever came of it",
    ),
    LAST_SUCCESS: (
        "last_successful_cycle",
        "When a cycle last succeeded, on whatever instance",
    ),
}
"""Name, then the field of `Status` it shows, then what it says."""


class DatabaseState(Collector):
    """Reads on each scrape; with the database away it says so, and shows nothing stale."""

    def __init__(self) -> None:
        self._engine = database.configured(connections=1)
        self._lock = Lock()
        self._read_at = float("-inf")
        self._values: dict[str, float] | None = None
        self._last_success = 0.0

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The names, without a look."""
        yield from described()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Look, and tell."""
        with self._lock:
            if time.monotonic() - self._read_at > FRESH_SECONDS:
                self._values = self._read()
                self._read_at = time.monotonic()
            values = self._values
        if values is None:
            yield from _families({LAST_SUCCESS: self._last_success}, up=False)
        else:
            self._last_success = values[LAST_SUCCESS]
            yield from _families(values, up=True)

    def _read(self) -> dict[str, float] | None:
        try:
            with self._engine.begin() as connection:
                database.allow(connection, LIMIT)
                found = status.read(connection)
        except SQLAlchemyError:  # away, or its schema is: that is what the gauge `up` tells
            return None
        values = {name: _number(getattr(found, field)) for name, (field, _) in GAUGES.items()}
        if found.oldest_transaction_seconds is None:  # hidden from this role: no figure, not a 0
            del values[OLDEST_TRANSACTION]
        return values


def _number(value: float | datetime | None) -> float:
    """A moment as Prometheus counts it; nothing to be old is 0."""
    if isinstance(value, datetime):
        return value.timestamp()
    return float(value or 0)


def described() -> Iterator[GaugeMetricFamily]:
    """What is told, without a look at the database."""
    yield from _families({}, up=False)


def _families(values: dict[str, float], *, up: bool) -> Iterator[GaugeMetricFamily]:
    yield GaugeMetricFamily(
        "calendar_database_up", "Whether the state was just read from PostgreSQL", float(up)
    )
    for name, (_, says) in GAUGES.items():
        yield GaugeMetricFamily(name, says, values.get(name))
