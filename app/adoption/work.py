"""Carrying a plan out beside live traffic: each step can be repeated, none waits long for a table.

Indexes first, each by itself; then, in one transaction, our tables with the triggers, and the
schema's level, without which no worker begins; then the guards, if they are asked for.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from app import database, migrations, schema
from app.adoption.guards import Guard
from app.adoption.plan import Plan, plan
from app.store import adoptable, errors, guards

Tell = Callable[[str], object]

LOCK_TIMEOUT = "2s"
"""Whoever wants to write waits behind us for so long at most."""
TRIES = 5
LONG = "12h"
"""For what keeps nobody from writing: an index of a large table, a look at all its rows."""
_LOCKED, _BROKEN = "55P03", "23"
_PAUSE = 1.0  # seconds between two tries, so that those who queued behind us get on


def adopt(engine: Engine, tell: Tell, *, guarded: bool) -> Plan:
    """Make what is missing, and say each statement as it is done; an obstacle changes nothing.

    `engine` must allow two connections. Errors: SchemaError when a table is in use for too long.
    """
    with migrations.turn(engine):
        with engine.begin() as connection:
            found = plan(connection)
        if found.obstacles:
            return found
        with unhurried(engine) as connection:
            for step in found.steps:
                if step.beside_traffic:
                    run(connection, step.sql)
                    tell(step.sql)
        quick = [step.sql for step in found.steps if not step.beside_traffic]
        if found.makes_tables or quick:
            locked(engine, lambda connection: make(connection, found, quick))
        if found.makes_tables:
            tell("our own tables")
        for sql in quick:
            tell(sql)
        for guard in found.guards if guarded else ():
            _guard(engine, guard, tell)
    return found


def make(connection: Connection, found: Plan, statements: list[str]) -> None:
    """Our tables and what hangs on the adopter's, as one."""
    if found.makes_tables:
        migrations.upgrade(connection, adopted_key=found.key)
    for sql in statements:
        run(connection, sql)


def _guard(engine: Engine, guard: Guard, tell: Tell) -> None:
    if first := guard.first:
        locked(engine, lambda connection: run(connection, first))
        tell(first)
    with unhurried(engine) as connection:
        try:
            if guards.offenders(connection, guard.made.name) == 0:
                for sql in guard.then:
                    run(connection, sql)
                    tell(sql)
        except DBAPIError as error:  # a row that has broken it meanwhile: told as the others are
            if not (errors.sqlstate(error) or "").startswith(_BROKEN):
                raise
            for sql in guard.undone:
                run(connection, sql)


def unguarded(engine: Engine) -> list[tuple[Guard, int]]:
    """The guards that are not at work, each with how many rows break it."""
    with engine.begin() as connection:
        found = plan(connection).guards
    with unhurried(engine) as connection:
        return [(one, guards.offenders(connection, one.made.name)) for one in found]


def run(connection: Connection, sql: str) -> None:
    """A statement that is in the adopter's own names already."""
    connection.exec_driver_sql(sql, execution_options=adoptable.AS_WRITTEN)


def locked(engine: Engine, work: Callable[[Connection], object]) -> None:
    """A transaction that queues for a table for two seconds at most, and tries again."""
    for left in reversed(range(TRIES)):
        try:
            with engine.begin() as connection:
                connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
                work(connection)
                return
        except DBAPIError as error:
            if errors.sqlstate(error) != _LOCKED:
                raise
            if not left:
                raise schema.SchemaError(
                    "Somebody keeps a table locked: nothing of this step was changed. Repeat the"
                    " command when he is done; what was done before stays done."
                ) from None
            time.sleep(_PAUSE)


@contextmanager
def unhurried(engine: Engine) -> Iterator[Connection]:
    """Outside any transaction and without a limit for locks, for what nobody has to wait for."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        database.allow(connection, LONG, for_session=True)
        connection.execute(text("SET lock_timeout = 0"))
        # as for the audit: whole tables are read
        connection.execute(text("SET enable_seqscan = on"))
        connection.execute(text("SET enable_bitmapscan = on"))
        try:
            yield connection
        finally:
            connection.invalidate()  # these settings are nobody else's
