"""How fast the backlog is worked: told by the records of the cycles that found it there."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

CYCLES = 10
"""So many at most: what is longer ago says little about now."""


@dataclass(frozen=True, slots=True)
class Pace:
    """So many appointments expired in so many seconds, the waits between ticks included."""

    cycles: int
    expired: int
    seconds: float
    idle_seconds: float
    """Since the last cycle began."""

    def seconds_for(self, count: int) -> float | None:
        """How long so many will take, if no others come; None when nothing moves."""
        return count * self.seconds / self.expired if self.expired else None


def lately(connection: Connection, since: datetime) -> Pace | None:
    """Over the last cycles that began when `since` had passed; None: there are not two of them.

    With the oldest deadline of a backlog these are the cycles that had more to do than they did:
    any other may have expired few because there were no more. Measured from one's start to the
    next one's, so the last of them is the end and counts for nothing.
    """
    found = connection.execute(_LATELY, {"since": since, "count": CYCLES + 1}).one()
    return Pace(*found) if found.cycles > 0 else None


_LATELY = text(
    """
    SELECT count(*) - 1 AS cycles, coalesce(sum(expired) FILTER (WHERE started_at < newest), 0),
        extract(epoch FROM max(started_at) - min(started_at))::float,
        extract(epoch FROM now() - max(started_at))::float
    FROM (
        SELECT started_at, max(started_at) OVER () AS newest,
            coalesce((result ->> 'ExpiredCount')::integer, 0) AS expired
        FROM (
            SELECT started_at, result FROM calendar.job_runs
            WHERE job = 'appointment_timeout' AND as_of > :since
              AND outcome IS DISTINCT FROM 'skipped'
            ORDER BY started_at DESC LIMIT :count
        ) last
    ) cycle
    """
)
