"""The least that workers, publisher and retention may do, as `ops/postgres/worker-role.sql` has it.

A test holds this list against that file. Only catalogs are read.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from app.store.catalogue import TABLES


@dataclass(frozen=True, slots=True)
class Grant:
    """A privilege on a table, or on these of its columns only."""

    privilege: str
    table: str
    columns: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """What gives it; the role's name is to follow."""
        columns = f" ({', '.join(self.columns)})" if self.columns else ""
        return f"GRANT {self.privilege}{columns} ON calendar.{self.table} TO"


GRANTS = (
    *(Grant("SELECT", table) for table in TABLES),
    Grant("UPDATE", "appointments", ("status", "updated_at", "cancelled_by", "version")),
    Grant("UPDATE", "availability_slots", ("status", "updated_at", "version")),
    Grant("UPDATE", "calendar_events", ("status", "cancel_reason", "updated_at", "version")),
    Grant("UPDATE", "event_reminders", ("status", "updated_at")),
    Grant("INSERT", "outbox_messages", ("message_id", "topic", "key", "payload", "headers")),
    Grant(
        "UPDATE",
        "outbox_messages",
        (
            "published_at",
            "attempts",
            "last_attempt_at",
            "last_error",
            "set_aside_at",
            "discarded_at",
        ),
    ),
    Grant("DELETE", "outbox_messages"),
    *(
        Grant(privilege, table)
        for table in ("expiry_failures", "job_runs", "brake")
        for privilege in ("INSERT", "UPDATE", "DELETE")
    ),
)


@dataclass(frozen=True, slots=True)
class Role:
    """Whom the product connects as, and where; names are quoted as SQL wants them."""

    name: str
    database: str
    superuser: bool
    owner: bool
    uses_schema: bool | None
    """None: there is no schema."""
    sees_sessions: bool


def role(connection: Connection) -> Role:
    """The connected one."""
    return Role(*connection.execute(_ROLE, {"tables": list(TABLES)}).one())


def lacking(connection: Connection) -> list[Grant]:
    """The grants that the connected role lacks, of each only the columns that it lacks."""
    found = []
    for grant in GRANTS:
        values = {"privilege": grant.privilege, "table": grant.table}
        if not grant.columns and not connection.execute(_ON_TABLE, values).scalar():
            found.append(grant)
        elif grant.columns:
            columns = connection.execute(_ON_COLUMNS, {**values, "columns": list(grant.columns)})
            if lacked := tuple(columns.scalars()):
                found.append(Grant(grant.privilege, grant.table, lacked))
    return found


_ROLE = text(
    """
    SELECT quote_ident(session_user), quote_ident(current_database()), rolsuper,
        EXISTS (
            SELECT FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
            WHERE nspname = 'calendar' AND relname = ANY(:tables)
              AND pg_has_role(relowner, 'USAGE')),
        (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = 'calendar'),
        pg_has_role('pg_read_all_stats', 'USAGE')
    FROM pg_roles WHERE rolname = session_user
    """
)
_RELATION = """
    FROM pg_class relation JOIN pg_namespace n ON n.oid = relnamespace
    WHERE nspname = 'calendar' AND relname = :table
"""
_ON_TABLE = text(
    f"""SELECT coalesce((SELECT has_table_privilege(relation.oid, :privilege) {_RELATION}), true)"""
)
_ON_COLUMNS = text(
    f"""
    SELECT attname FROM unnest(CAST(:columns AS text[])) WITH ORDINALITY AS wanted (name, place)
    JOIN (SELECT relation.oid {_RELATION}) found ON true
    JOIN pg_attribute ON attrelid = found.oid AND attname = wanted.name AND attnum > 0
    WHERE NOT has_column_privilege(found.oid, attnum, :privilege) ORDER BY place
    """
)
