"""The role that the product connects as: no less than its work needs, and no more."""

from collections.abc import Iterator

from sqlalchemy import Connection

from app.doctor.complaint import Complaint
from app.store import privileges, server

FILE = "ops/postgres/worker-role.sql"


def complaints(connection: Connection) -> Iterator[Complaint]:
    """Each privilege that is missing, and those that are too many."""
    role = privileges.role(connection)
    if role.uses_schema is False:
        yield _missing(f"GRANT USAGE ON SCHEMA calendar TO {role.name}", role.name)
    for grant in privileges.lacking(connection):
        yield _missing(f"{grant.statement} {role.name}", role.name)
    if role.superuser or role.owner:
        yield Complaint(
            f"The role {role.name} {'is a superuser' if role.superuser else 'owns the tables'}: a"
            " fault or a stolen password reaches everything.",
            f"Make a role with {FILE}, and let the workers connect as it.",
            serious=False,
        )
    if not role.sees_sessions:
        yield Complaint(
            f"The role {role.name} does not see other sessions: who holds a lock or keeps vacuum"
            " back stays unknown, here, in `why` and in the metrics.",
            f"`GRANT pg_read_all_stats TO {role.name}`",
            serious=False,
        )
    for table in server.tables(connection, server.ROWS_HIDDEN):
        yield Complaint(
            f"Row-level security hides rows of calendar.{table} from {role.name}: the worker is"
            " cross-tenant and must see all (section 4).",
            f"`ALTER ROLE {role.name} BYPASSRLS`, or a policy that lets it see every row.",
        )


def _missing(statement: str, role: str) -> Complaint:
    privilege = statement.removeprefix("GRANT ").partition(" TO ")[0]
    return Complaint(
        f"The role {role} lacks the privilege {privilege}.",
        f"`{statement}`, or run {FILE} again.",
    )
