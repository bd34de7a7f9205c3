"""What an operator asks first, in bounded queries on partial indexes: no table is counted."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

CAP = 100_000
"""Counts stop here: beyond it the exact number helps nobody and costs everybody."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the work. Ages in seconds, None when there is nothing to be old."""

    now: datetime
    backlog: int
    oldest_overdue_seconds: float | None
    poison: int
    outbox_backlog: int
    oldest_unsent_seconds: float | None
    set_aside: int
    last_successful_cycle: datetime | None


@dataclass(frozen=True, slots=True)
class Poison:
    """An appointment that keeps failing."""

    appointment_id: UUID
    rule: str
    sqlstate: str | None
    first_failed_at: datetime
    last_failed_at: datetime
    attempts: int
    last_run_id: str


def read(connection: Connection) -> Status:
    """One look at everything, in one snapshot."""
    return Status(*connection.execute(_STATUS, {"cap": CAP}).one())


def poison(connection: Connection, limit: int) -> list[Poison]:
    """Who fails longest, first."""
    rows = connection.execute(
        text(
            """
            SELECT appointment_id, rule, sqlstate, first_failed_at, last_failed_at, attempts,
                   last_run_id
            FROM calendar.expiry_failures ORDER BY first_failed_at, appointment_id LIMIT :limit
            """
        ),
        {"limit": limit},
    )
    return [Poison(*row) for row in rows]


_STATUS = text(
    """
    SELECT now(),
        (SELECT count(*) FROM (
            SELECT FROM calendar.appointments
            WHERE status = 'Pending' AND pending_expires_at < now() LIMIT :cap) overdue),
        (SELECT extract(epoch FROM now() - min(pending_expires_at))::float
         FROM calendar.appointments
         WHERE status = 'Pending' AND pending_expires_at < now()),
        (SELECT count(*) FROM (SELECT FROM calendar.expiry_failures LIMIT :cap) failing),
        (SELECT count(*) FROM (
            SELECT FROM calendar.outbox_messages
            WHERE published_at IS NULL AND discarded_at IS NULL LIMIT :cap) unsent),
        (SELECT extract(epoch FROM now() - created_at)::float
         FROM calendar.outbox_messages
         WHERE published_at IS NULL AND discarded_at IS NULL AND set_aside_at IS NULL
         ORDER BY id LIMIT 1),
        (SELECT count(*) FROM (
            SELECT FROM calendar.outbox_messages
            WHERE published_at IS NULL AND discarded_at IS NULL AND last_error IS NOT NULL
              AND set_aside_at IS NOT NULL LIMIT :cap) set_aside),
        (SELECT finished_at FROM calendar.job_runs
         WHERE job = 'appointment_timeout' AND outcome IN ('completed', 'cut_short')
         ORDER BY started_at DESC LIMIT 1)
    """
)
