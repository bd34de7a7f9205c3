"""What stands in the schema before it is ours: tables or views of an adopter's. Only reads.

A view's rows are those of one table behind it, whose own names an index and a trigger need. Which
they are PostgreSQL's planner tells, for no catalog does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, RowMapping, text

AS_WRITTEN = {"as_written": True, "no_parameters": True}
"""For statements in the adopter's names, whatever signs are in them."""
ONE_TABLE = {"Seq Scan", "Index Scan", "Index Only Scan"}
"""What the planner does with a view that is no more than another name of one table."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it is declared, and `base`, the type under its domain."""

    name: str
    declared: str
    base: str
    length: int | None
    labels: tuple[str, ...] | None
    """Of an enum; None: it is none."""
    writable: bool


@dataclass(frozen=True, slots=True)
class Behind:
    """The table that holds a relation's rows, in SQL; `columns` are its own for ours."""

    oid: int
    schema: str
    name: str
    """With its schema."""
    partitioned: bool
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view of ours by name; `behind` None: it is no view of one table."""

    name: str
    kind: str
    columns: Mapping[str, Column]
    behind: Behind | None

    @property
    def is_view(self) -> bool:
        """Whether the rows are under another name."""
        return self.kind == "v"


@dataclass(frozen=True, slots=True)
class Index:
    """An index by what it does; `keys` and `predicate` are SQL."""

    name: str
    valid: bool
    keys: tuple[str, ...]
    predicate: str | None = field(default=None)


def relations(connection: Connection, names: tuple[str, ...]) -> dict[str, Relation]:
    """Those that are there, by name."""
    rows = connection.execute(_COLUMNS, {"names": list(names)}).mappings().all()
    found: dict[str, Relation] = {}
    for name in dict.fromkeys(row["relname"] for row in rows):
        own = [row for row in rows if row["relname"] == name]
        columns = {row["attname"]: _column(row) for row in own}
        found[name] = Relation(name, own[0]["relkind"], columns, _behind(connection, own))
    return found


def _column(row: RowMapping) -> Column:
    labels = None if row["labels"] is None else tuple(row["labels"])
    return Column(
        row["attname"], row["declared"], row["base"], row["length"], labels, row["writable"]
    )


def _behind(connection: Connection, rows: list[RowMapping]) -> Behind | None:
    first = rows[0]
    if first["relkind"] in "rp":
        names = {row["attname"]: row["quoted"] for row in rows}
        return Behind(
            first["oid"], first["space"], first["qualified"], first["relkind"] == "p", names
        )
    if first["relkind"] != "v" or first["barred"]:  # a barred view is read before it is narrowed
        return None
    return _behind_view(connection, rows)


def _behind_view(connection: Connection, rows: list[RowMapping]) -> Behind | None:
    listed = ", ".join(row["quoted"] for row in rows)
    explained = connection.exec_driver_sql(
        f"EXPLAIN (VERBOSE, FORMAT JSON) SELECT {listed} FROM {rows[0]['qualified']}",
        execution_options=AS_WRITTEN,
    ).scalar_one()
    plan: dict[str, Any] = explained[0]["Plan"]
    if plan["Node Type"] not in ONE_TABLE:
        return None
    table = connection.execute(_TABLE, {"schema": plan["Schema"], "name": plan["Relation Name"]})
    oid, schema, name, alias, partitioned = table.one()
    columns = (expression.replace(f"{alias}.", "") for expression in plan["Output"])
    named = dict(zip((row["attname"] for row in rows), columns, strict=True))
    return Behind(oid, schema, name, partitioned, named)


def indexes(connection: Connection, behind: Behind) -> list[Index]:
    """All of a table."""
    rows = connection.execute(_INDEXES, {"oid": behind.oid})
    return [Index(row.name, row.valid, tuple(row.keys), row.predicate) for row in rows]


def triggers(connection: Connection, behind: Behind) -> dict[str, bool]:
    """A table's own, and whether each is switched on."""
    rows = connection.execute(_TRIGGERS, {"oid": behind.oid})
    return {row.tgname: row.on for row in rows}


def goes_by_an_index(connection: Connection) -> bool:
    """Whether the oldest overdue appointment is found by an index, in its order (D3)."""
    connection.execute(text("SELECT set_config('enable_seqscan', 'off', true)"))
    connection.execute(text("SELECT set_config('enable_bitmapscan', 'off', true)"))
    nodes: list[dict[str, Any]] = [connection.execute(_OLDEST).scalar_one()[0]["Plan"]]
    for node in nodes:
        nodes += node.get("Plans", [])
    return not {node["Node Type"] for node in nodes} & {"Seq Scan", "Sort"}


_OLDEST = text(
    """
    EXPLAIN (FORMAT JSON) SELECT FROM calendar.appointments
    WHERE status = 'Pending' AND pending_expires_at < now()
    ORDER BY pending_expires_at, id LIMIT 1
    """
)
_COLUMNS = text(
    """
    SELECT relation.oid, relname, relkind::text, quote_ident(space.nspname) AS space,
        format('%I.%I', space.nspname, relname) AS qualified,
        attname, quote_ident(attname) AS quoted,
        CASE WHEN base.typtype = 'e' THEN format('%I.%I', typed.nspname, base.typname)
            ELSE format_type(atttypid, atttypmod) END AS declared,
        base.typname AS base,
        CASE WHEN base.typname = 'varchar'
            THEN nullif(greatest(atttypmod, declared.typtypmod), -1) - 4 END AS length,
        (SELECT array_agg(enumlabel::text ORDER BY enumsortorder)
         FROM pg_enum WHERE enumtypid = base.oid) AS labels,
        attgenerated = '' AND pg_column_is_updatable(relation.oid, attnum, false) AS writable,
        EXISTS (SELECT FROM pg_options_to_table(relation.reloptions)
            WHERE option_name = 'security_barrier' AND option_value::boolean) AS barred
    FROM pg_class relation JOIN pg_namespace space ON space.oid = relnamespace
    JOIN pg_attribute ON attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
    JOIN pg_type declared ON declared.oid = atttypid
    JOIN pg_type base ON base.oid = CASE declared.typtype
        WHEN 'd' THEN declared.typbasetype ELSE declared.oid END
    JOIN pg_namespace typed ON typed.oid = base.typnamespace
    WHERE space.nspname = 'calendar' AND relname = ANY(:names)
    ORDER BY relname, attnum
    """
)
_TABLE = text(
    """
    SELECT relation.oid, quote_ident(nspname), format('%I.%I', nspname, relname),
        quote_ident(relname), relkind = 'p'
    FROM pg_class relation JOIN pg_namespace space ON space.oid = relnamespace
    WHERE nspname = :schema AND relname = :name
    """
)
_INDEXES = text(
    """
    SELECT relname AS name, indisvalid AND indisready AS valid,
        ARRAY(SELECT pg_get_indexdef(indexrelid, place, true)
              FROM generate_series(1, indnkeyatts) AS place) AS keys,
        pg_get_expr(indpred, indrelid) AS predicate
    FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = :oid
    """
)
_TRIGGERS = text(
    """
    SELECT tgname, tgenabled IN ('O', 'A') AS on FROM pg_trigger
    WHERE tgrelid = :oid AND NOT tgisinternal
    """
)
