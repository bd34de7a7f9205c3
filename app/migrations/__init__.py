"""The schema's history (Alembic), shipped inside the package; `apply` brings a database to it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text

from app import database, schema
from app.store.catalogue import TABLES

HISTORY = "schema_revision"
"""Alembic's own table, under a name that an adopter's own Alembic does not use."""
_ADVISORY_KEY = 4_015_880_611  # any constant: two migrators of one database take turns on it
_PATIENCE = 600.0  # seconds for another migrator's turn
_LOOK_AGAIN = 0.2


def apply(engine: Engine, revision: str = "head") -> None:
    """Bring the schema to `revision`, or do nothing; safe when several start it at once."""
    with engine.begin() as connection:
        take_turns(connection)
        refuse_strangers(connection)
        upgrade(connection, revision)


def upgrade(connection: Connection, revision: str = "head", adopted_key: str | None = None) -> None:
    """The same in a transaction, and a turn, of the caller's.

    `adopted_key`: appointments, slots, events and reminders are there and somebody else's; so the
    column is called that is the key of his appointments.
    """
    if connection.execute(text("SELECT to_regnamespace('calendar')")).scalar() is None:
        connection.execute(text("CREATE SCHEMA calendar"))
    command.upgrade(_config(connection, adopted_key), revision)


def revert(engine: Engine, revision: str) -> None:
    """Take the schema back to an older `revision` (`base` removes it with all its data)."""
    with engine.begin() as connection:
        take_turns(connection)
        if schema.is_adopted(connection):
            raise schema.SchemaError(
                "This schema was adopted: going back would remove tables that are not ours."
            )
        command.downgrade(_config(connection), revision)


def revision(engine: Engine) -> str | None:
    """Where the schema stands; None: nowhere yet."""
    with engine.begin() as connection:
        return revision_of(connection)


def revision_of(connection: Connection) -> str | None:
    """The same in a transaction of the caller's."""
    if connection.execute(text(f"SELECT to_regclass('calendar.{HISTORY}')")).scalar() is None:
        return None
    found = connection.execute(text(f"SELECT version_num FROM calendar.{HISTORY}"))
    return found.scalar()


def take_turns(connection: Connection) -> None:
    """Wait for another migrator; then never queue long behind a busy table (readers would too)."""
    _wait(connection, "pg_try_advisory_xact_lock")
    database.allow(connection, "10min")
    connection.execute(text("SET LOCAL lock_timeout = '5s'"))


@contextmanager
def turn(engine: Engine) -> Iterator[None]:
    """A turn that is longer than one transaction."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        _wait(connection, "pg_try_advisory_lock")
        try:
            yield
        finally:
            connection.invalidate()  # and with its session the lock


def _wait(connection: Connection, lock: str) -> None:
    """By asking again and again: a session that waits within its statement keeps a snapshot.

    And an index that the other migrator builds beside live traffic waits for every snapshot.
    """
    deadline = time.monotonic() + _PATIENCE
    while not connection.execute(text(f"SELECT {lock}({_ADVISORY_KEY})")).scalar():
        if time.monotonic() > deadline:
            raise schema.SchemaError("Another migration has been at work for ten minutes.")
        time.sleep(_LOOK_AGAIN)


def refuse_strangers(connection: Connection) -> None:
    """Tables of our names that no migration has made are somebody's: adopted, never built upon."""
    if revision_of(connection) is not None:
        return
    found = connection.execute(
        text(
            """SELECT relname FROM pg_class WHERE relname = ANY(:tables)
            AND relnamespace = to_regnamespace('calendar') ORDER BY relname"""
        ),
        {"tables": list(TABLES)},
    )
    if strangers := ", ".join(found.scalars()):
        raise schema.SchemaError(
            f"The schema {database.schema_of(connection)} has tables that no migration made"
            f" ({strangers}): `python -m app migrate --adopt --dry-run` shows how to adopt them."
        )


def _config(connection: Connection, adopted_key: str | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    config.attributes["adopted_key"] = adopted_key
    return config
