"""The schema: whether it fits this program, and all that the migrations made is at work.

Of an adopter's tables only adoption knows what they need: `app.doctor.adoption`.
"""

from collections.abc import Iterator

from sqlalchemy import Connection

from app import schema
from app.doctor.complaint import Complaint
from app.store import catalogue, privileges, server
from app.store.catalogue import ADOPTABLE, Kind, Object, State

_OTHERWISE = {
    Kind.TABLE: "the product cannot work without it",
    Kind.KEY: "rows can be doubled, and are found slowly",
    Kind.REFERENCE: "an appointment may lose its slot or event, and then never expires",
    Kind.CONSTRAINT: "the database does not refuse what the domain forbids (D4)",
    Kind.INDEX: "every statement that relies on it grows slow with the table (D3)",
    Kind.TRIGGER: "the database does not do its part (D4, C4)",
}
_VALIDATED_LATER = ("CHECK", "FOREIGN KEY")


def complaints(connection: Connection) -> Iterator[Complaint]:
    """What is missing, or not at work."""
    unfit = _unfit(connection)
    if unfit:
        found, _, remedy = unfit.rpartition(": ")
        yield Complaint(f"{found}.", f"{remedy[:1].upper()}{remedy[1:]}")
        return
    adopted = is_adopted(connection)
    for one, state in catalogue.not_at_work(connection):
        if adopted and one.table in ADOPTABLE:
            continue
        yield Complaint(
            f"The {_named(one)} is {state}: {_OTHERWISE[one.kind]}.",
            _remedy(one, state),
            serious=one.kind is not Kind.REFERENCE,  # an adopted schema may do without
        )
    for table in server.tables(connection, server.UNLOGGED):
        yield Complaint(
            f"The table calendar.{table} is unlogged: a crash empties it.",
            f"`ALTER TABLE calendar.{table} SET LOGGED`",
        )
    for table, column in server.unfilled(connection):
        yield Complaint(
            f"calendar.{table}.{column} is NOT NULL without a default, and not ours: no row can be"
            " added.",
            f"`ALTER TABLE calendar.{table} ALTER COLUMN {column} DROP NOT NULL`, or a default",
        )


def _unfit(connection: Connection) -> str | None:
    """What `schema.check` says, where the role may ask; what it may not is the role's complaint."""
    if not _may_ask(connection):
        return None
    try:
        with connection.begin_nested():
            schema.check(connection)
    except schema.SchemaError as error:
        return str(error)
    return None


def is_adopted(connection: Connection) -> bool:
    """Whether tables are an adopter's, as far as the role may ask."""
    return _may_ask(connection) and schema.is_adopted(connection)


def _may_ask(connection: Connection) -> bool:
    return privileges.role(connection).uses_schema is not False and not any(
        grant.table == "schema_level" for grant in privileges.lacking(connection)
    )


def _named(one: Object) -> str:
    on = "" if one.kind is Kind.TABLE else f" on calendar.{one.table}"
    return f"{one.kind} {one.name}{on}"


def _remedy(one: Object, state: State) -> str:
    if one.kind is Kind.TABLE:
        return "Restore it from a backup: a migration made it, and none makes it again."
    return {State.MISSING: _made_anew, State.INVALID: _mended, State.OFF: _switched_on}[state](one)


def _made_anew(one: Object) -> str:
    """Beside live traffic, where PostgreSQL can."""
    if one.kind is Kind.INDEX:
        return f"`{one.makes.replace('INDEX', 'INDEX CONCURRENTLY', 1)}`"
    if any(kind in one.makes for kind in _VALIDATED_LATER):
        return f"`{one.makes} NOT VALID`, then {_validated(one)}"
    return f"`{one.makes}`"


def _mended(one: Object) -> str:
    if one.kind is Kind.INDEX:
        return f"`REINDEX INDEX CONCURRENTLY calendar.{one.name}`"
    return f"Mend the rows that break it, then {_validated(one)}"


def _validated(one: Object) -> str:
    return f"`ALTER TABLE calendar.{one.table} VALIDATE CONSTRAINT {one.name}`"


def _switched_on(one: Object) -> str:
    name = one.name if one.kind is Kind.TRIGGER else "ALL"
    return f"`ALTER TABLE calendar.{one.table} ENABLE TRIGGER {name}`"
