"""Statements on the hot path: prepared once per connection, and sent past SQLAlchemy's results.

Planning a joined statement costs more than running it, and so does telling what came back. A round
trip costs both sides as much as a small statement: a transaction's end can take the next one's
first statement along. Nothing is sent along with a write: it is committed only by who is alive to
hear that it was done (S5).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import psycopg2
from psycopg2 import extensions
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.database import SESSION_OF_ITS_OWN
from app.socket_timeout import TimedConnection

Row = tuple[Any, ...]
Arguments = Mapping[str, object] | list[object]
Came = Callable[[], Row | None]
"""The first row of what has come back."""
COMMIT_AND = "COMMIT AND CHAIN; "


@dataclass(frozen=True)
class Prepared:
    """A statement with `:name` parameters, planned once per connection and run by its name.

    Where a connection is not a session it is sent, and planned, as a whole each time.
    """

    name: str
    parameters: Mapping[str, str]
    """Each parameter's PostgreSQL type, in any order."""
    sql: str

    def prepare(self, connection: Connection) -> None:
        """Plan it on this connection, unless it is already, or nothing may be prepared."""
        done: set[str] = connection.info.setdefault("prepared", set())
        if self.name not in done and is_session(connection):
            connection.exec_driver_sql(self._declaration)
            done.add(self.name)

    def run(self, connection: Connection, values: Mapping[str, object]) -> Row | None:
        """Run it for its first row; `prepare` must have been called on this connection."""
        return _send(connection, *self._sent(connection, values))()

    def commit_and_run(self, connection: Connection, values: Mapping[str, object]) -> Came:
        """Commit, and run it as the first of the next transaction: one round trip for both.

        An error may be of either half. What came back is told by a call of what is returned.
        """
        sql, arguments = self._sent(connection, values)
        return _send(connection, COMMIT_AND + sql, arguments)

    def _sent(self, connection: Connection, values: Mapping[str, object]) -> tuple[str, Arguments]:
        # an id as plain text: it has its parameter's type anyway, and a cast is parsed for each
        plain = {name: str(v) if type(v) is UUID else v for name, v in values.items()}
        if is_session(connection):
            return self._call, [plain[name] for name in self.parameters]
        return self._whole, plain

    @cached_property
    def _call(self) -> str:
        return f"EXECUTE {self.name} ({', '.join(['%s'] * len(self.parameters))})"

    @cached_property
    def _declaration(self) -> str:
        places = {name: f"${number}" for number, name in enumerate(self.parameters, 1)}
        types = ", ".join(self.parameters.values())
        return f"PREPARE {self.name} ({types}) AS {self._body(places)}"

    @cached_property
    def _whole(self) -> str:
        typed = {name: f"CAST(%({name})s AS {kind})" for name, kind in self.parameters.items()}
        return self._body(typed)

    def _body(self, places: Mapping[str, str]) -> str:
        return re.sub(r"(?<!:):(\w+)", lambda match: places[match[1]], self.sql)


def is_session(connection: Connection) -> bool:
    """Whether a statement can be prepared on it, and a transaction's end begin the next one."""
    return bool(connection.get_execution_options().get(SESSION_OF_ITS_OWN, True))


def _line(connection: Connection) -> TimedConnection:
    return cast(TimedConnection, connection.connection.dbapi_connection)


def _send(connection: Connection, sql: str, arguments: Arguments) -> Came:
    """Past SQLAlchemy's results, which cost more than the statement; who listens to it hears it.

    Within its transaction, and with its errors.
    """
    if not connection.in_transaction():
        connection.begin()
    line = _line(connection)
    cursor = line.cursor()
    context, sent = SimpleNamespace(), (sql, arguments)
    for hear in connection.dispatch.before_cursor_execute:
        sent = hear(connection, cursor, *sent, context, False)
    try:
        cursor.execute(*sent)
    except psycopg2.Error as error:  # as SQLAlchemy would tell it
        raise DBAPIError.instance(
            sql,
            None,
            error,
            psycopg2.Error,
            hide_parameters=True,
            connection_invalidated=bool(line.closed),
            dialect=connection.dialect,
        ) from error

    def came() -> Row | None:
        connection.dispatch.after_cursor_execute(connection, cursor, *sent, context, False)
        return extensions.cursor.fetchone(cursor)  # it is here already: no wait to be timed

    return came
