"""How the audit asks: a check is one SELECT of the rows that break a rule, read in one snapshot.

Answers stream from a server-side cursor, so that memory stays bounded whatever the tables hold.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, Row, text

from app import database

EXACT_UP_TO = 100_000
"""Beyond it the rows looked at are PostgreSQL's own estimate: counting would cost like a check."""
_FETCH = 1000  # rows that one FETCH brings: what the audit holds at any time

_LIMIT = "30min"
"""A check reads whole tables by design: the ten seconds of the product's own statements would
end it at a few million rows. Still a bound (S5), and each FETCH has it for itself."""

_SETTINGS = {
    # What keeps a cycle on its indexes would keep a whole table's join off its hash.
    "enable_seqscan": "on",
    "enable_bitmapscan": "on",
    "cursor_tuple_fraction": "1",  # all offending rows are wanted, not the first tenth soon
    "work_mem": "64MB",  # a sort or hash beyond it goes to the server's disk
}

_SET_LOCAL = text(
    "SELECT " + ", ".join(f"set_config('{name}', :{name}, true)" for name in _SETTINGS)
)

Judge = Callable[[Row[tuple[object, ...]]], "tuple[str, str] | None"]


class Severity(StrEnum):
    """A violation fails the audit; a warning is lawful, but somebody should look."""

    VIOLATION = "violation"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule, as a question about rows.

    `sql` selects `id`, `found`, `wanted` of the offenders: identifiers and statuses only (D5).
    With a `judge` it selects candidates: `id`, and what the judge asks for to say found and wanted.
    """

    name: str
    rule: str
    says: str
    table: str
    sql: str
    severity: Severity = Severity.VIOLATION
    judge: Judge | None = None


def age(column: str) -> str:
    """How long ago, as SQL text; PostgreSQL's calendar has times without a distance."""
    seconds = f"extract(epoch FROM now() - {column})::bigint"
    return f"CASE WHEN isfinite({column}) THEN {seconds} || ' s' ELSE 'ever' END"


@dataclass(frozen=True, slots=True)
class Finding:
    """One offender."""

    id: str
    found: str
    wanted: str


@dataclass(frozen=True, slots=True)
class Counted:
    """How many rows a table holds."""

    rows: int
    exact: bool


@contextmanager
def snapshot(connection: Connection) -> Iterator[Connection]:
    """A transaction that writes nothing and sees one moment, so that traffic raises no alarm.

    One per check: an old snapshot keeps dead rows, and what keeps them slows the cycle down.
    """
    with connection.begin():
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        database.allow(connection, _LIMIT)
        connection.execute(_SET_LOCAL, _SETTINGS)
        yield connection


def offenders(
    connection: Connection, check: Check, values: Mapping[str, object]
) -> Iterator[Finding]:
    """Who breaks the check's rule, as they come."""
    rows = connection.execute(text(check.sql), values, execution_options={"yield_per": _FETCH})
    for row in rows:
        verdict = (row.found, row.wanted) if check.judge is None else check.judge(row)
        if verdict is not None:
            yield Finding(str(row.id), *verdict)


def count(connection: Connection, table: str) -> Counted:
    """The rows of a table: counted when they are few, else as the last ANALYZE saw them."""
    found = connection.execute(
        text(
            f"""SELECT
                (SELECT count(*) FROM (SELECT FROM {table} LIMIT :cap + 1) counted) AS counted,
                (SELECT reltuples::bigint FROM pg_class WHERE oid = CAST('{table}' AS regclass))
                    AS estimated"""
        ),
        {"cap": EXACT_UP_TO},
    ).one()
    if found.counted <= EXACT_UP_TO:
        return Counted(found.counted, exact=True)
    return Counted(max(found.estimated, found.counted), exact=False)
