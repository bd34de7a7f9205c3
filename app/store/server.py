"""What an operator's PostgreSQL is like, as far as the product depends on it. Only reads."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import Connection, text

from app import database
from app.socket_timeout import TimedConnection
from app.store.catalogue import TABLES

_LOOKS = 5
LIMIT = "5s"
"""For a look's statements: catalogs answer in milliseconds, or something holds them."""


@dataclass(frozen=True, slots=True)
class Server:
    """Which server has answered, and its clock."""

    version: int
    """As 140005 for 14.5."""
    standby: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's value in force, in its own unit."""

    name: str
    in_force: str
    unit: str


@dataclass(frozen=True, slots=True)
class Connections:
    """How many the connected role may have, by whom it is limited, and how many are taken."""

    room: int
    limited_by: str
    server_room: int
    taken: int


@dataclass(frozen=True, slots=True)
class Holder:
    """What keeps dead rows, or the log, from being removed."""

    kind: str
    name: str
    application: str
    seconds: float | None
    kept_log: str | None


@contextmanager
def look(connection: Connection, limit: str | None = LIMIT) -> Iterator[Connection]:
    """A transaction that PostgreSQL itself keeps from writing, with bounded statements.

    `limit` None leaves the bound that is looked at.
    """
    with connection.begin():
        connection.execute(text("SET TRANSACTION READ ONLY"))
        if limit is not None:
            database.allow(connection, limit)
        yield connection


def server(connection: Connection) -> Server:
    """Whom the connection has reached."""
    return Server(
        *connection.execute(
            text(
                """SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(),
                    clock_timestamp()"""
            )
        ).one()
    )


def understood(connection: Connection, asked: Mapping[str, str]) -> list[Setting]:
    """What the server makes of these values: set for this transaction, in the settings' units."""
    for name, value in asked.items():
        connection.execute(
            text("SELECT set_config(:name, :value, true)"), {"name": name, "value": value}
        )
    return in_force(connection, list(asked))


def in_force(connection: Connection, names: Sequence[str]) -> list[Setting]:
    """These settings as they are now; unknown ones are left out."""
    rows = connection.execute(
        text(
            """SELECT name, setting, coalesce(unit, '') FROM pg_settings
            WHERE name = ANY(:names) ORDER BY name"""
        ),
        {"names": list(names)},
    )
    return [Setting(*row) for row in rows]


def pooled(connection: Connection) -> bool:
    """Whether a pooler stands between: the session is another than was told at its beginning."""
    told = cast("TimedConnection", connection.connection.dbapi_connection).info.backend_pid
    return told != _backend(connection)


def sessions_change(first: Connection, second: Connection) -> bool:
    """Whether the transactions of two open connections change their session, or share one.

    Only a pooler in transaction mode lets them. An idle one hands out the session it got back last,
    one that takes turns another to the next transaction, a busy one any.
    """
    first_had, second_had = set(), set()
    for _ in range(_LOOKS):
        first_had |= {_backend(first), _backend(first)}
        second_had.add(_backend(second))
    return len(first_had) > 1 or first_had == second_had


def _backend(connection: Connection) -> int:
    with connection.begin():
        return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def tables(connection: Connection, oddity: str) -> list[str]:
    """Our tables of which this is true."""
    rows = connection.execute(
        text(
            f"""SELECT relname FROM pg_class relation JOIN pg_namespace n ON n.oid = relnamespace
            WHERE nspname = 'calendar' AND relname = ANY(:tables) AND {oddity} ORDER BY relname"""
        ),
        {"tables": list(TABLES)},
    )
    return list(rows.scalars())


def unfilled(connection: Connection) -> list[tuple[str, str]]:
    """Columns of our own tables that want a value and are none that we know."""
    return [tuple(row) for row in connection.execute(_UNFILLED, {"given": list(_GIVEN)})]


_GIVEN = (
    *("topic", "key", "payload"),
    *("appointment_id", "rule", "first_failed_at", "last_failed_at", "last_run_id"),
    *("run_id", "job", "started_at"),
    *("reason", "pulled_by"),
)
"""The columns without a default that every INSERT of ours fills."""
_UNFILLED = text(
    """
    SELECT relname, attname FROM pg_attribute JOIN pg_class r ON r.oid = attrelid
    WHERE relnamespace = to_regnamespace('calendar') AND attnum > 0 AND NOT attisdropped
      AND relname IN ('outbox_messages', 'expiry_failures', 'job_runs', 'brake')
      AND attnotnull AND NOT atthasdef AND attidentity = '' AND attname <> ALL (:given)
    ORDER BY relname, attnum
    """
)
HOLDING_BACK_VACUUM = """
    SELECT 'transaction' AS kind, pid::text AS name,
        coalesce(application_name, '') AS application, xact_start AS began
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND backend_type <> 'autovacuum worker'
      AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)
    UNION ALL
    SELECT 'prepared transaction', gid, '', prepared FROM pg_prepared_xacts
    WHERE database = current_database()"""
"""Open transactions of this database; what began before them stays as dead rows (vacuum's own
do not count)."""
NOT_VACUUMED = """EXISTS (
    SELECT FROM pg_options_to_table(reloptions)
    WHERE option_name = 'autovacuum_enabled' AND NOT option_value::boolean)"""
UNLOGGED = "relpersistence = 'u'"
ROWS_HIDDEN = "row_security_active(relation.oid)"


def connections(connection: Connection) -> Connections:
    """The room for this role; a superuser is limited by the server alone."""
    return Connections(*connection.execute(_CONNECTIONS).one())


def holders(connection: Connection, seconds: float) -> list[Holder]:
    """Transactions open for longer, and replication slots that nobody reads."""
    return [Holder(*row) for row in connection.execute(_HOLDERS, {"seconds": seconds})]


_CONNECTIONS = text(
    """
    WITH server AS (
        SELECT current_setting('max_connections')::integer
            - current_setting('superuser_reserved_connections')::integer
            - coalesce(current_setting('reserved_connections', true)::integer, 0) AS room
    ), limits (room, limited_by) AS (
        SELECT room, 'max_connections' FROM server
        UNION ALL
        SELECT datconnlimit, 'database' FROM pg_database
        WHERE datname = current_database() AND datconnlimit >= 0
        UNION ALL
        SELECT rolconnlimit, 'role' FROM pg_roles
        WHERE rolname = session_user AND rolconnlimit >= 0
    )
    SELECT limits.room, limited_by, server.room,
        (SELECT sum(numbackends)::integer FROM pg_stat_database)
    FROM limits, server, pg_roles
    WHERE rolname = session_user AND (NOT rolsuper OR limited_by = 'max_connections')
    ORDER BY limits.room LIMIT 1
    """
)
_HOLDERS = text(
    f"""
    SELECT kind, name, application, extract(epoch FROM now() - began)::float, NULL
    FROM ({HOLDING_BACK_VACUUM}) holding WHERE began < now() - make_interval(secs => :seconds)
    UNION ALL
    SELECT 'replication slot', slot_name, '', NULL,
        pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn))
    FROM pg_replication_slots
    WHERE NOT active AND (restart_lsn IS NOT NULL OR xmin IS NOT NULL OR catalog_xmin IS NOT NULL)
    """
)
