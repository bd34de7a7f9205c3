"""What the planner believes about the two hot tables, whatever is true."""

from sqlalchemy import text

from tests.world import World

_MISSING = """
SELECT pg_clear_relation_stats('calendar', relname), pg_clear_attribute_stats(
    'calendar', relname, attname, false)
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
WHERE relnamespace = 'calendar'::regnamespace AND relkind = 'r'
"""
_TABLE = """
SELECT pg_restore_relation_stats('schemaname', 'calendar', 'relname', '{table}',
    'relpages', {pages}, 'reltuples', {rows}::real)
"""
_COLUMN = """
SELECT pg_restore_attribute_stats('schemaname', 'calendar', 'relname', '{table}',
    'attname', '{column}', 'inherited', false, 'avg_width', 8, 'null_frac', {nulls}::real,
    'n_distinct', 1::real {values})
"""


def _always(value: str) -> str:
    return f", 'most_common_vals', '{{{value}}}', 'most_common_freqs', '{{1}}'::real[]"


def _stale(status: str, unpublished: int) -> list[str]:
    """From when each appointment had this status, and all messages, or none, were published."""
    return [
        _MISSING,
        *(
            _TABLE.format(table=table, pages=1, rows=50)
            for table in ("appointments", "outbox_messages")
        ),
        _COLUMN.format(table="appointments", column="status", nulls=0, values=_always(status)),
        _COLUMN.format(
            table="outbox_messages", column="published_at", nulls=unpublished, values=""
        ),
        _COLUMN.format(table="outbox_messages", column="key", nulls=0, values=_always("one")),
    ]


STATISTICS = {
    "missing": [_MISSING],
    "stale, all pending": _stale("Pending", unpublished=1),
    "stale, none pending": _stale("Declined", unpublished=0),
    "fresh": ["ANALYZE calendar.appointments", "ANALYZE calendar.outbox_messages"],
}


def believe(world: World, statistics: str) -> None:
    """From now on the planner goes by these."""
    with world.engine.begin() as connection:
        for statement in STATISTICS[statistics]:
            connection.execute(text(statement))
