"""The brake: while it is on, no appointment expires. Expiry cannot be undone, so a human can wait.

Kept in PostgreSQL, so that every instance obeys the same one, within a second.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class Brake:
    """It is on, since when, why, and who pulled it."""

    pulled_at: datetime
    reason: str
    pulled_by: str

    @property
    def sentence(self) -> str:
        """As runs, logs and `status` say it."""
        since = self.pulled_at.strftime("%Y-%m-%d %H:%M:%S")
        return f"the brake is on since {since} UTC by {self.pulled_by}: {self.reason}"


@dataclass(frozen=True, slots=True)
class BrakeLimits:
    """Beyond these it pulls itself; None is off."""

    overdue: int | None = None
    oldest_seconds: float | None = None


def current(connection: Connection) -> Brake | None:
    """The brake, if it is on."""
    found = connection.execute(
        text("SELECT pulled_at, reason, pulled_by FROM calendar.brake WHERE released_at IS NULL")
    ).first()
    return None if found is None else Brake(*found)


def pull(connection: Connection, reason: str, pulled_by: str) -> Brake:
    """Put it on; one that is on already stays as it is."""
    found = connection.execute(
        text(
            """
            INSERT INTO calendar.brake AS kept (reason, pulled_by) VALUES (:reason, :pulled_by)
            ON CONFLICT (only_row) DO UPDATE SET
                pulled_at = CASE WHEN kept.released_at IS NULL
                            THEN kept.pulled_at ELSE excluded.pulled_at END,
                reason = CASE WHEN kept.released_at IS NULL
                         THEN kept.reason ELSE excluded.reason END,
                pulled_by = CASE WHEN kept.released_at IS NULL
                            THEN kept.pulled_by ELSE excluded.pulled_by END,
                released_at = NULL
            RETURNING pulled_at, reason, pulled_by
            """
        ),
        {"reason": reason, "pulled_by": pulled_by},
    ).one()
    return Brake(*found)


def release(connection: Connection) -> bool:
    """Take it off; false when it was not on. The limits stay silent until they are kept again."""
    return (
        connection.execute(
            text("UPDATE calendar.brake SET released_at = now() WHERE released_at IS NULL")
        ).rowcount
        > 0
    )


def pull_beyond(connection: Connection, limits: BrakeLimits) -> Brake | None:
    """Pull it by itself beyond its limits, unless a human has released it in this situation."""
    if limits.overdue is None and limits.oldest_seconds is None:
        return None
    exceeded = connection.execute(
        _EXCEEDED, {"overdue": limits.overdue, "oldest_seconds": limits.oldest_seconds}
    ).scalar_one_or_none()
    if exceeded is None:
        connection.execute(text("DELETE FROM calendar.brake WHERE released_at IS NOT NULL"))
        return None
    decided = connection.execute(text("SELECT released_at FROM calendar.brake")).scalar()
    return None if decided else pull(connection, str(exceeded), "its own limits")


_EXCEEDED = text(
    """
    SELECT CASE
        WHEN (SELECT count(*) FROM (
            SELECT FROM calendar.appointments
            WHERE status = 'Pending' AND pending_expires_at < now()
            ORDER BY pending_expires_at LIMIT CAST(:overdue AS bigint) + 1) overdue
            ) > CAST(:overdue AS bigint)
        THEN format('more than %s appointments are overdue', CAST(:overdue AS bigint))
        WHEN (SELECT min(pending_expires_at) FROM calendar.appointments
              WHERE status = 'Pending' AND pending_expires_at < now())
             < now() - make_interval(secs => CAST(:oldest_seconds AS float))
        THEN format('the oldest is overdue for more than %s s', CAST(:oldest_seconds AS float))
    END
    """
)
