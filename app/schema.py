"""Whether this program may work on the schema that it finds."""

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from app.store import errors

LEVEL = 1
"""The schema level that this program was written for: it needs at least this one."""


class SchemaError(Exception):
    """The schema does not fit the program, or the database cannot be asked; one sentence."""


def check(connection: Connection) -> None:
    """Refuse an unmigrated schema, one that is too old, and one marked as too new."""
    try:
        row = connection.execute(
            text("SELECT level, oldest_program FROM calendar.schema_level")
        ).first()
    except SQLAlchemyError as error:
        raise SchemaError(errors.sentence(error)) from None
    if row is None or row.level < LEVEL:
        msg = "The schema is missing or too old: run `python -m app migrate`."
        raise SchemaError(msg)
    if row.oldest_program > LEVEL:
        msg = (
            f"The schema is too new for this program (it wants level {row.oldest_program},"
            f" this is {LEVEL}): deploy the newer version."
        )
        raise SchemaError(msg)


def is_adopted(connection: Connection) -> bool:
    """Whether appointments, slots, events and reminders are tables, or views, of an adopter's."""
    if connection.execute(text("SELECT to_regclass('calendar.schema_level')")).scalar() is None:
        return False
    return bool(connection.execute(text("SELECT adopted FROM calendar.schema_level")).scalar())
