"""The kept failures of expiry (C4): what failed, by which rule, since when and how often."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, Engine, text

PAGE = 500
"""So many ids are read at a time, however many appointments are failing."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one appointment did not expire: rule and SQLSTATE, never a row's content (D5)."""

    rule: str
    sqlstate: str | None = None


def record(
    connection: Connection, appointment_id: UUID, failure: Failure, as_of: datetime, run_id: str
) -> None:
    """Keep it, unless the appointment has left Pending meanwhile."""
    connection.execute(
        text(
            """
            INSERT INTO calendar.expiry_failures AS kept
                (appointment_id, rule, sqlstate, first_failed_at, last_failed_at, last_run_id)
            SELECT id, :rule, :sqlstate, :as_of, :as_of, :run_id
            FROM calendar.appointments WHERE id = :id AND status = 'Pending'
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


def failed_before(engine: Engine, as_of: datetime) -> Iterator[UUID]:
    """Who failed before this moment, longest untried first: time may run out."""
    last_failed_at: datetime | str = "-infinity"
    appointment_id = UUID(int=0)
    while True:
        with engine.begin() as connection:
            page = connection.execute(
                _PAGE, {"as_of": as_of, "at": last_failed_at, "id": appointment_id, "page": PAGE}
            ).all()
        yield from (row.appointment_id for row in page)
        if len(page) < PAGE:
            return
        last_failed_at, appointment_id = page[-1].last_failed_at, page[-1].appointment_id


_PAGE = text(
    """
    SELECT appointment_id, last_failed_at FROM calendar.expiry_failures
    WHERE last_failed_at < :as_of
      AND (last_failed_at, appointment_id) > (CAST(:at AS timestamptz), :id)
    ORDER BY last_failed_at, appointment_id LIMIT :page
    """
)
