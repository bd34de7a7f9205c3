"""What an operator asks first, in bounded queries on partial indexes: no table is counted."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.server import HOLDING_BACK_VACUUM

CAP = 100_000
"""Counts stop here: beyond it the exact number helps nobody and costs everybody."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the work. Ages in seconds, None when there is nothing to be old."""

    now: datetime
    backlog: int
    oldest_overdue_seconds: float | None
    poison: int
    oldest_poison_seconds: float | None
    outbox_backlog: int
    oldest_unsent_seconds: float | None
    set_aside: int
    last_tick: datetime | None
    last_successful_cycle: datetime | None
    brake_seconds: float | None
    oldest_transaction_seconds: float | None
    """Of anybody in this database; None when the role may not see it (pg_read_all_stats)."""


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


@dataclass(frozen=True, slots=True)
class Overdue:
    """An appointment that should have expired and has not failed: held by somebody, or in line."""

    appointment_id: UUID
    pending_expires_at: datetime


def read(connection: Connection) -> Status:
    """One look at everything, in one snapshot."""
    return Status(*connection.execute(LOOK, {"cap": CAP}).one())


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


def overdue(connection: Connection, limit: int) -> list[Overdue]:
    """The oldest of those that no failure keeps."""
    rows = connection.execute(
        text(
            """
            SELECT id, pending_expires_at FROM calendar.appointments
            WHERE status = 'Pending' AND pending_expires_at < now()
              AND NOT EXISTS (SELECT FROM calendar.expiry_failures WHERE appointment_id = id)
            ORDER BY pending_expires_at, id LIMIT :limit
            """
        ),
        {"limit": limit},
    )
    return [Overdue(*row) for row in rows]


# Each count names the order of its index, so that none goes by another one, row by row, because
# stale statistics believe that nothing is pending.
LOOK = text(
    f"""
    SELECT now(),
        (SELECT count(*) FROM (
            SELECT FROM calendar.appointments
            WHERE status = 'Pending' AND pending_expires_at < now()
            ORDER BY pending_expires_at LIMIT :cap) overdue),
        (SELECT extract(epoch FROM now() - min(pending_expires_at))::float
         FROM calendar.appointments
         WHERE status = 'Pending' AND pending_expires_at < now()),
        (SELECT count(*) FROM (SELECT FROM calendar.expiry_failures LIMIT :cap) failing),
        (SELECT extract(epoch FROM now() - min(first_failed_at))::float
         FROM (SELECT first_failed_at FROM calendar.expiry_failures LIMIT :cap) failing),
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
        (SELECT started_at FROM calendar.job_runs
         WHERE job = 'appointment_timeout' ORDER BY started_at DESC LIMIT 1),
        (SELECT finished_at FROM calendar.job_runs
         WHERE job = 'appointment_timeout' AND outcome IN ('completed', 'cut_short')
         ORDER BY started_at DESC LIMIT 1),
        (SELECT extract(epoch FROM now() - pulled_at)::float
         FROM calendar.brake WHERE released_at IS NULL),
        (SELECT extract(epoch FROM coalesce(now() - min(began), '0'))::float
         FROM ({HOLDING_BACK_VACUUM}) holding WHERE pg_has_role('pg_read_all_stats', 'USAGE')
         HAVING pg_has_role('pg_read_all_stats', 'USAGE'))
    """
)
