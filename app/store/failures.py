"""The kept failures of expiry (C4): what failed, by which rule, since when and how often."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

AT_MOST = 20_000
"""More than a cycle has time for; it takes those that waited longest."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one appointment did not expire: rule and SQLSTATE, never a row's content (D5)."""

    rule: str
    sqlstate: str | None = None


# In a CASE no partial index is proved by it: the row is found by its key, even where statistics
# believe that nothing is pending, so that any index of the pending would cost as little.
_STILL_PENDING = "CASE WHEN status = 'Pending' THEN true END"


def record(
    connection: Connection, appointment_id: UUID, failure: Failure, as_of: datetime, run_id: str
) -> bool:
    """Keep it, unless the appointment has left Pending meanwhile: false then."""
    kept = connection.execute(
        text(
            f"""
            INSERT INTO calendar.expiry_failures AS kept
                (appointment_id, rule, sqlstate, first_failed_at, last_failed_at, last_run_id)
            SELECT id, :rule, :sqlstate, :as_of, :as_of, :run_id
            FROM calendar.appointments WHERE id = :id AND {_STILL_PENDING}
            ON CONFLICT (appointment_id) DO UPDATE
            SET rule = excluded.rule, sqlstate = excluded.sqlstate,
                last_failed_at = greatest(kept.last_failed_at, excluded.last_failed_at),
                attempts = kept.attempts + 1, last_run_id = excluded.last_run_id
            """
        ),
        {
            "id": appointment_id,
            "rule": failure.rule,
            "sqlstate": failure.sqlstate,
            "as_of": as_of,
            "run_id": run_id,
        },
    )
    return bool(kept.rowcount)


def failed_before(connection: Connection, as_of: datetime) -> Sequence[UUID]:
    """Who failed before this moment, longest untried first: time may run out."""
    found = connection.execute(_FAILED_BEFORE, {"as_of": as_of, "limit": AT_MOST})
    return found.scalars().all()


_FAILED_BEFORE = text(
    """
    SELECT appointment_id FROM calendar.expiry_failures
    WHERE last_failed_at < :as_of ORDER BY last_failed_at, appointment_id LIMIT :limit
    """
)
