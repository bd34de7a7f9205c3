"""The schema's history (Alembic), shipped inside the package; `apply` brings a database to it."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text

from app import database

SCHEMA = "calendar"
_ADVISORY_KEY = 4_015_880_611  # any constant: two migrators of one database take turns on it


def apply(engine: Engine, revision: str = "head") -> None:
    """Bring the schema to `revision`, or do nothing; safe when several start it at once."""
    with engine.begin() as connection:
        take_turns(connection)
        command.upgrade(_config(connection), revision)


def revert(engine: Engine, revision: str) -> None:
    """Take the schema back to an older `revision` (`base` removes it with all its data)."""
    with engine.begin() as connection:
        take_turns(connection)
        command.downgrade(_config(connection), revision)


def revision(engine: Engine) -> str | None:
    """Where the schema stands; None: nowhere yet."""
    with engine.begin() as connection:
        if connection.execute(text("SELECT to_regclass('calendar.alembic_version')")).scalar():
            found = connection.execute(text("SELECT version_num FROM calendar.alembic_version"))
            return found.scalar()
    return None


def take_turns(connection: Connection) -> None:
    """Wait for another migrator; then never queue long behind a busy table (readers would too)."""
    database.allow(connection, "10min")
    connection.execute(text("SET LOCAL lock_timeout = 0"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_KEY})
    connection.execute(text("SET LOCAL lock_timeout = '5s'"))
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config
