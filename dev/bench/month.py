"""The outbox after a month of use: published, retained for a week, removed, vacuumed."""

from sqlalchemy import Engine, text

from app.retention import BATCH, SECONDS, RetentionOptions, sweep
from dev.bench import backlog, rounds
from dev.bench.drain import drain
from dev.bench.figure import Measured, Samples, StructureError
from dev.bench.stage import Database, Stage

DAYS = 30
_KEPT = round(RetentionOptions().outbox_days)

_PUBLISH = """
UPDATE calendar.outbox_messages SET published_at = now() - :ago * interval '1 day',
    last_attempt_at = now(), attempts = 1
WHERE published_at IS NULL
"""
_REMOVE = """
DELETE FROM calendar.outbox_messages WHERE published_at <= now() - :before * interval '1 day'
"""
_MEGABYTES = """
SELECT pg_total_relation_size(oid) / 2 ^ 20 FROM pg_class
WHERE oid = 'calendar.outbox_messages'::regclass
"""


def _live(engine: Engine, days: int, messages_a_day: int) -> list[tuple[float, float]]:
    """Each day's messages written, marked, kept for a week, removed; days, and the table's MB."""
    line: list[tuple[float, float]] = []
    for day in range(days):
        backlog.messages(engine, messages_a_day)
        with engine.begin() as connection:
            backlog.unlimited(connection)
            ago = days - day
            connection.execute(text(_PUBLISH), {"ago": ago})
            connection.execute(text(_REMOVE), {"before": ago + _KEPT})
        backlog.settle(engine)
        with engine.begin() as connection:
            line.append((day + 1, float(connection.execute(text(_MEGABYTES)).scalar_one())))
    return line


def _added_and_drained(stage: Stage, made: Database, count: int) -> float:
    backlog.messages(made.engine, count)
    return drain(stage, made, 1)


def after_a_month(stage: Stage) -> Measured:
    """10 million messages published and most of them removed; a drain then, and on day one."""
    days, a_day = stage.size(DAYS, _KEPT + 2), stage.size(10_000_000 // DAYS, 200)
    count = stage.size(50_000, 1_000)
    with stage.database() as young, stage.database() as old:
        line = _live(old.engine, days, a_day)
        found = rounds.side_by_side(
            stage.size(3, 1),
            {
                "day one": lambda: _added_and_drained(stage, young, count),
                "after a month": lambda: _added_and_drained(stage, old, count),
            },
            warm_up=stage.size(1, 0),
        )
        removed = sweep(old.engine, RetentionOptions(outbox_days=1))["OutboxMessagesRemoved"]
    if removed < min(a_day, BATCH):
        raise StructureError(f"a run of retention removed {removed} messages")
    (first, week), (last, month) = line[_KEPT], line[-1]
    notes = [f"the outbox after {first} days {week:,.1f} MB, after {last} {month:,.1f} MB"]
    found["removed by retention"] = Samples([removed], f" in {SECONDS:g} s")
    ratio = rounds.divide(found["after a month"], found["day one"])
    return Measured(ratio, found, notes, series={"MB of the outbox by day": line})
