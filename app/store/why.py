"""What is known about one appointment, and who holds a part of it.

Who holds a row lock that nobody waits for is in no view: `pg_locks` has the holder's transaction,
the row's `xmax` has its number. Whether a row is held at all, only trying its lock tells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

CAP = 100_000
"""Those due earlier are counted so far."""


@dataclass(frozen=True, slots=True)
class Situation:
    """An appointment, and the state of the work around it."""

    now: datetime
    status: str
    pending_expires_at: datetime | None
    updated_at: datetime
    version: int
    slot_id: UUID | None
    calendar_event_id: UUID | None
    event_version: int | None
    auto_confirm: bool | None
    rule: str | None
    sqlstate: str | None
    failing_since: datetime | None
    last_failed_at: datetime | None
    attempts: int | None
    last_run_id: str | None
    due_before: int
    last_success: datetime | None
    running: str | None
    application: str


@dataclass(frozen=True, slots=True)
class Told:
    """One of its messages; `in_hand` while a publisher has it."""

    topic: str
    message_id: UUID
    correlation_id: str | None
    created_at: datetime
    published_at: datetime | None
    set_aside_at: datetime | None
    discarded_at: datetime | None
    last_error: str | None
    in_hand: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A row of it that somebody else holds."""

    name: str
    table: str
    id: UUID


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a part: a backend, or a prepared transaction, which has none.

    `doing` is the first word of its statement: the rest may hold data (D5). What the role may not
    see of others is None.
    """

    part: str
    pid: int | None
    application: str | None
    since: datetime | None
    state: str | None
    doing: str | None
    prepared_as: str | None


def situation(
    connection: Connection, appointment_id: UUID, cycle_seconds: float
) -> Situation | None:
    """All of it in one look; None when there is no such appointment."""
    row = connection.execute(
        _SITUATION, {"id": appointment_id, "cap": CAP, "cycle_seconds": cycle_seconds}
    ).first()
    return None if row is None else Situation(*row)


def told(connection: Connection, message_ids: Sequence[UUID]) -> tuple[Told, ...]:
    """Those of the messages that are in the outbox."""
    rows = connection.execute(_TOLD, {"ids": list(message_ids)})
    return tuple(Told(*row) for row in rows)


def held_parts(connection: Connection, appointment_id: UUID, found: Situation) -> list[Part]:
    """Try every part's lock as a cycle would, without waiting; the caller rolls back at once."""
    wanted = [
        ("appointment", "calendar.appointments", "id", appointment_id),
        ("slot", "calendar.availability_slots", "id", found.slot_id),
        ("event", "calendar.calendar_events", "id", found.calendar_event_id),
        ("reminder", "calendar.event_reminders", "calendar_event_id", found.calendar_event_id),
    ]
    held = []
    for name, table, column, value in wanted:
        which = f"FROM {table} WHERE {column} = :value"
        if name == "reminder":
            which += " AND status = 'Pending'"
        locked = set(_ids(connection, f"SELECT id {which} FOR NO KEY UPDATE SKIP LOCKED", value))
        there = _ids(connection, f"SELECT id {which} ORDER BY id", value)
        held += [Part(name, table, row) for row in there if row not in locked]
    return held


def _ids(connection: Connection, sql: str, value: UUID | None) -> list[UUID]:
    return list(connection.execute(text(sql), {"value": value}).scalars())


def holders(connection: Connection, part: Part) -> list[Holder]:
    """Whose transaction the part's `xmax` is; none: it has been let go in between."""
    own = f"(SELECT xmax FROM {part.table} WHERE id = :id)"
    found = _holders(connection, part, own)
    return found or _sharers(connection, part)


def _sharers(connection: Connection, part: Part) -> list[Holder]:
    """Several share a lock as one number; of one that is none of those PostgreSQL knows nothing."""
    members = f"""ANY (SELECT xid FROM {part.table} held, pg_get_multixact_members(held.xmax)
        WHERE id = :id AND mode <> 'keysh')"""
    try:
        with connection.begin_nested():
            return _holders(connection, part, members)
    except SQLAlchemyError:
        return []


def _holders(connection: Connection, part: Part, transaction: str) -> list[Holder]:
    sql = text(_ROW_HOLDERS.format(transaction=transaction))
    return [Holder(*row) for row in connection.execute(sql, {"part": part.name, "id": part.id})]


def table_holders(connection: Connection) -> list[Holder]:
    """Who holds a whole table, so that no row of it can be locked."""
    return [Holder(*row) for row in connection.execute(_TABLE_HOLDERS)]


_HOLDER = """pid, nullif(application_name, ''), coalesce(xact_start, prepared), state,
        upper(substring(query from '^\\s*([A-Za-z]+)')), gid"""
_ROW_HOLDERS = f"""
    SELECT CAST(:part AS text), {_HOLDER}
    FROM pg_locks LEFT JOIN pg_stat_activity USING (pid)
    LEFT JOIN pg_prepared_xacts ON transaction = transactionid
    WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
      AND transactionid = {{transaction}}
"""
_TABLE_HOLDERS = text(
    f"""
    SELECT 'table ' || relname, {_HOLDER}
    FROM pg_locks JOIN pg_class ON pg_class.oid = relation
    LEFT JOIN pg_stat_activity USING (pid)
    LEFT JOIN pg_prepared_xacts ON false
    WHERE locktype = 'relation' AND granted AND mode IN ('ExclusiveLock', 'AccessExclusiveLock')
      AND relnamespace = to_regnamespace('calendar')
    """
)
_SITUATION = text(
    """
    SELECT clock_timestamp(), a.status, a.pending_expires_at, a.updated_at, a.version,
        a.slot_id, a.calendar_event_id, event.version, slot.auto_confirm,
        failure.rule, failure.sqlstate, failure.first_failed_at, failure.last_failed_at,
        failure.attempts, failure.last_run_id,
        (SELECT count(*) FROM (
            SELECT FROM calendar.appointments earlier
            WHERE earlier.status = 'Pending' AND earlier.pending_expires_at < now()
              AND (earlier.pending_expires_at, earlier.id) < (a.pending_expires_at, a.id)
            ORDER BY earlier.pending_expires_at, earlier.id LIMIT :cap) counted),
        (SELECT finished_at FROM calendar.job_runs
         WHERE job = 'appointment_timeout' AND outcome IN ('completed', 'cut_short')
         ORDER BY started_at DESC LIMIT 1),
        (SELECT run_id FROM calendar.job_runs
         WHERE job = 'appointment_timeout' AND finished_at IS NULL
           AND started_at > now() - make_interval(secs => :cycle_seconds)
         ORDER BY started_at DESC LIMIT 1),
        current_setting('application_name')
    FROM calendar.appointments a
    LEFT JOIN calendar.availability_slots slot ON slot.id = a.slot_id
    LEFT JOIN calendar.calendar_events event ON event.id = a.calendar_event_id
    LEFT JOIN calendar.expiry_failures failure ON failure.appointment_id = a.id
    WHERE a.id = :id
    """
)
_TOLD = text(
    """
    SELECT topic, message_id, headers ->> 'correlation-id', created_at, published_at,
        set_aside_at, discarded_at, last_error,
        EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND granted
            AND mode = 'ExclusiveLock' AND transactionid = message.xmax)
    FROM calendar.outbox_messages message WHERE message_id = ANY (CAST(:ids AS uuid[]))
    ORDER BY id
    """
)
