"""What a database error means: the fault of one item, or of everything (C5)."""

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.store.failures import Failure

# By SQLSTATE class or code. Everything else (constraints, timeouts, deadlocks, what a trigger
# raises) is told by one row and costs that row's item only.
EVERYBODYS = (
    "08",  # connection lost
    "25006",  # read-only: the primary has moved
    "42",  # a table, column or privilege is missing
    "3F",  # the schema is missing
    "53",  # disk full, memory, connections
    "57P",  # shutdown, crash, start-up
    "58",  # I/O error
    "28",  # password refused
)


def sqlstate(error: SQLAlchemyError) -> str | None:
    """The five characters of PostgreSQL, None when it did not get to say them."""
    code = getattr(getattr(error, "orig", None), "pgcode", None)
    return str(code) if code else None


def is_everybodys(error: SQLAlchemyError) -> bool:
    """Whether it would meet the next item as well: the server or the schema, not the row."""
    if not isinstance(error, DBAPIError) or error.connection_invalidated:
        return True
    code = sqlstate(error)
    return code is None or code.startswith(EVERYBODYS)


def failure(error: Exception) -> Failure:
    """An error as it may be kept and logged: class, SQLSTATE and constraint, no content (D5)."""
    if not isinstance(error, DBAPIError):
        return Failure(rule=type(error).__name__)
    cause = type(error.orig).__name__ if error.orig else type(error).__name__
    constraint = getattr(getattr(error.orig, "diag", None), "constraint_name", None)
    return Failure(rule=f"{cause}: {constraint}" if constraint else cause, sqlstate=sqlstate(error))


def sentence(error: SQLAlchemyError) -> str:
    """What an operator is told: plain, and without address, password, SQL or row."""
    code = sqlstate(error)
    cause = type(getattr(error, "orig", None) or error).__name__
    if code is None or code.startswith(("08", "57P")):
        why = f"{cause}, {code or 'no SQLSTATE'}"
        return f"PostgreSQL cannot be reached or takes no connection ({why}): see DATABASE_URL."
    if code in {"42P01", "3F000", "42703"}:
        return "The schema is missing or too old: run `python -m app migrate`."
    return f"PostgreSQL refused the work ({cause}, SQLSTATE {code})."
