"""Whether the product is well again, and whether it has come to rest."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Engine

from dev.chaos import records


@dataclass(frozen=True)
class Pulse:
    """How things stand, seen from the moment `since`."""

    overdue: int  # due before it and not expired
    unsent: int  # written before it and not acknowledged
    cycled: bool  # a cycle that began after it has completed
    relayed: bool  # a message written after it was acknowledged

    @property
    def well(self) -> bool:
        """Ticks succeed again, and what had piled up is done."""
        return self.cycled and self.relayed and not self.overdue and not self.unsent


_PULSE = """
SELECT
    (SELECT count(*) FROM calendar.appointments
     WHERE status = 'Pending' AND pending_expires_at < :since),
    (SELECT count(*) FROM calendar.outbox_messages
     WHERE published_at IS NULL AND created_at < :since),
    EXISTS (SELECT FROM calendar.job_runs
            WHERE job = 'appointment_timeout' AND outcome = 'completed' AND started_at > :since),
    EXISTS (SELECT FROM calendar.outbox_messages
            WHERE created_at > :since AND published_at IS NOT NULL)
"""


def feel(engine: Engine, since: datetime) -> Pulse:
    """One look."""
    with engine.connect() as connection:
        return Pulse(*records.rows(connection, _PULSE, since=since)[0])


def at_rest(connection: Connection) -> bool:
    """Nothing overdue and nothing waiting at this moment, nor failing."""
    return bool(
        records.value(
            connection,
            """
            SELECT NOT EXISTS (SELECT FROM calendar.appointments
                               WHERE status = 'Pending' AND pending_expires_at < now())
               AND NOT EXISTS (SELECT FROM calendar.outbox_messages WHERE published_at IS NULL)
            """,
        )
    )


@dataclass(frozen=True)
class Work:
    """What there was to do between two moments, and what of it is done."""

    due: int
    done: int

    @property
    def share(self) -> float:
        """Done, in per cent of what was due."""
        return 100.0 if not self.due else 100.0 * self.done / self.due


_WORK = """
SELECT count(*), count(*) FILTER (WHERE done) FROM (
    SELECT status <> 'Pending' AS done FROM calendar.appointments
    WHERE pending_expires_at BETWEEN :since AND :until
    UNION ALL
    SELECT published_at IS NOT NULL FROM calendar.outbox_messages
    WHERE created_at BETWEEN :since AND :until
) due
"""


def work(engine: Engine, since: datetime, until: datetime) -> Work:
    """Of appointments that fell due and messages that were written."""
    with engine.connect() as connection:
        return Work(*records.rows(connection, _WORK, since=since, until=until)[0])


_LATEST = """
SELECT coalesce(max(extract(epoch FROM CASE status
    WHEN 'Expired' THEN updated_at WHEN 'Pending' THEN now() END - pending_expires_at)), 0)::float
FROM calendar.appointments WHERE pending_expires_at BETWEEN :since AND now()
"""


def latest(engine: Engine, since: datetime) -> float:
    """The longest that an appointment which fell due since had to wait for its expiry."""
    with engine.connect() as connection:
        return float(records.value(connection, _LATEST, since=since))
