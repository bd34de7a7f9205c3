"""PostgreSQL: one engine per process, every connection with bounded waits.

Nothing here knows the tables, only the name of the schema that they are in. Behind a pooler that
gives every transaction another session, nothing is set or prepared: the role has what a session
would be set to.
"""

import os
import re
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, cast

from psycopg2 import extensions
from psycopg2.extras import register_uuid
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL

from app.settings import DatabaseSettings
from app.socket_timeout import TimedConnection

SCHEMA = "calendar"
"""Where the tables are, and how every statement of this program spells it."""
_SPELLED = re.compile(
    r"""(?<![\w."-])calendar(?=\.['a-z_])|(?<=')calendar(?=')|(?<=SCHEMA )calendar\b"""
)
LOCK_TIMEOUT = "2s"
STATEMENT_SECONDS = 10
STATEMENT_TIMEOUT = f"{STATEMENT_SECONDS}s"
IDLE_IN_TRANSACTION_TIMEOUT = "20s"
CLIENT_CHECK = "500ms"
ANSWER_SECONDS = 5.0
"""The server's limits are its own; so long after them a missing answer will never come."""

SESSION = {
    "timezone": "UTC",
    "lock_timeout": LOCK_TIMEOUT,
    "statement_timeout": STATEMENT_TIMEOUT,
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT,
    "client_connection_check_interval": CLIENT_CHECK,  # of a dead client nothing waits on
    "jit": "off",  # a generic plan's estimate is high enough to trigger it, for nothing
    "plan_cache_mode": "force_generic_plan",
    # Every hot statement goes by an index in its order; with missing or stale statistics the
    # planner would otherwise fetch and sort a whole backlog to take its first row.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
}
"""Set at connection time, so that no backend of ours outlives its limits, client killed or not.

`ops/postgres/worker-role.sql` sets the same on the role.
"""

TRANSPORT = {
    "connect_timeout": 5,  # seconds
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # milliseconds: bytes that nobody acknowledges
}

_LIMIT_IN_FORCE = "SELECT extract(epoch FROM current_setting('statement_timeout')::interval)::float"

FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)

SESSION_OF_ITS_OWN = "session_of_its_own"
"""The engine's option: whether a connection is a session, or another in every transaction."""
_engines: dict[tuple[str, int, bool], Engine] = {}


def configured(connections: int = 5) -> Engine:
    """The engine for the database that the environment names; SettingsError if it is wrong."""
    settings = DatabaseSettings.load()
    return engine(settings.url, connections, session=settings.session)


def engine(url: URL, connections: int = 5, *, session: bool = True) -> Engine:
    """This process's engine for `url`, holding at most `connections`; made on first use.

    `schema` in the URL's query, which only `DatabaseSettings` writes, is where the tables are.
    `session` False: a connection is not one session but, behind a pooler, another in every
    transaction. Nothing is then set on it or prepared in it.
    """
    key = (url.render_as_string(hide_password=False), connections, session)
    if key not in _engines:
        schema = str(url.query.get("schema", SCHEMA))
        made = create_engine(
            url.difference_update_query(["schema"]),
            pool_size=connections,
            max_overflow=0,
            pool_timeout=10,
            pool_use_lifo=True,  # few connections stay warm, with their plans
            pool_pre_ping=True,  # a restarted server costs no cycle
            hide_parameters=True,  # D5: no parameter ever reaches a log
            connect_args=connect_arguments(url, session=session),
            execution_options={"schema": schema, SESSION_OF_ITS_OWN: session},
        )
        event.listen(made, "connect", partial(_set_up, session))
        if schema != SCHEMA:
            event.listen(made, "before_cursor_execute", _translate, retval=True)
        _engines[key] = made
    return _engines[key]


def schema_of(connection: Connection | Engine) -> str:
    """The schema that this connection's statements are about."""
    return str(connection.get_execution_options().get("schema", SCHEMA))


@lru_cache(maxsize=256)
def in_schema(sql: str, schema: str) -> str:
    """The same about another schema: `calendar.` before a name, `'calendar'`, `SCHEMA calendar`.

    Not by `search_path`: an adopter's triggers run in our sessions and rely on their own, and a
    path that leads elsewhere would expire somebody else's appointments.
    """
    return _SPELLED.sub(schema, sql)


def _translate(
    connection: Connection,
    _cursor: object,
    statement: str,
    parameters: object,
    context: object,
    _many: object,
) -> tuple[str, object]:
    if getattr(context, "execution_options", {}).get("as_written"):
        return statement, parameters
    return in_schema(statement, schema_of(connection)), parameters


def connect_arguments(url: URL, *, session: bool = True) -> dict[str, Any]:
    """Ours first: what the operator wrote into the URL wins."""
    chosen: dict[str, Any] = {"application_name": "calendar", **TRANSPORT}
    kept = {name: value for name, value in chosen.items() if name not in url.query}
    if session:
        ours = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
        kept["options"] = f"{ours} {url.query.get('options', '')}".strip()
    return {**kept, "connection_factory": TimedConnection}


def _set_up(session: bool, connection: TimedConnection, _record: object) -> None:  # noqa: FBT001 - bound by its place
    """Values as Python's types, on our connections only: the process may not be ours alone."""
    register_uuid(conn_or_curs=connection)  # type: ignore[no-untyped-call]
    extensions.register_type(_INSTANT, connection)
    extensions.register_type(_INSTANTS, connection)
    _follow(connection)
    if connection.seconds is None and not session:  # the role has no limit: then the client has one
        connection.seconds = STATEMENT_SECONDS + ANSWER_SECONDS
    connection.rollback()  # a transaction, and its now(), begin with its user's first statement


def allow(connection: Connection, statement_timeout: str, *, for_session: bool = False) -> None:
    """Let statements of this transaction, or session, take so long, in PostgreSQL's notation."""
    connection.execute(
        text("SELECT set_config('statement_timeout', :limit, :local)"),
        {"limit": statement_timeout, "local": not for_session},
    )
    _follow(cast("TimedConnection", connection.connection.dbapi_connection))


def _follow(connection: TimedConnection) -> None:
    """Wait as long as the server may work, which the operator can set, and a little more."""
    connection.seconds = ANSWER_SECONDS * 2
    with connection.cursor() as cursor:
        cursor.execute(_LIMIT_IN_FORCE)
        for (limit,) in cursor:
            connection.seconds = limit + ANSWER_SECONDS if limit else None


def _instant(value: str | bytes | None, cursor: extensions.cursor) -> Any:
    """PostgreSQL's calendar is wider than Python's: what lies beyond becomes its first or last day.

    An odd row must load, so that the law can judge it, instead of stopping every claim behind it.
    """
    try:
        return extensions.PYDATETIMETZ(value, cursor)
    except ValueError:
        return FIRST_INSTANT if str(value).endswith("BC") else LAST_INSTANT


_INSTANT = extensions.new_type((1184,), "INSTANT", _instant)
_INSTANTS = extensions.new_array_type((1185,), "INSTANTS", _INSTANT)


def _forget_after_fork() -> None:
    """A child never uses, and never closes, its parent's connections."""
    for inherited in _engines.values():
        inherited.dispose(close=False)


os.register_at_fork(after_in_child=_forget_after_fork)
