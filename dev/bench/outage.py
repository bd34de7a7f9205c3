"""Figures about what an outage leaves behind: a backlog, worked oldest first, at two paces."""

import math

from celery import Celery
from sqlalchemy import text

from app.settings import AppointmentTimeoutSettings
from dev.bench import backlog
from dev.bench.figure import Measured, Ratio, Samples, StructureError
from dev.bench.stage import Database, Stage
from dev.bench.ticks import CYCLE, wait, worker

BATCH = 200
_FIFTH = 5

_OUT_OF_TURN = """
SELECT count(*) FROM (
    SELECT updated_at, max(updated_at) OVER (ORDER BY pending_expires_at, id) AS latest
    FROM calendar.appointments WHERE status = 'Expired'
) line WHERE updated_at < latest
"""
_CYCLES = """
SELECT count(*) AS cycles, extract(epoch FROM max(finished_at) - min(started_at))::float AS seconds,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY gap) AS gap
FROM (
    SELECT *, extract(epoch FROM started_at - lag(finished_at) OVER (ORDER BY started_at))::float
        * 1000 AS gap
    FROM calendar.job_runs WHERE job = 'appointment_timeout'
) cycle WHERE (result ->> 'ExpiredCount')::integer > 0
"""


def _expired(made: Database) -> int:
    """By the cycles' records: a count of the table, asked so often, would cost more than they."""
    with made.engine.begin() as connection:
        found = connection.execute(
            text("SELECT sum((result ->> 'ExpiredCount')::integer) FROM calendar.job_runs")
        ).scalar()
    return int(found or 0)


def _oldest_first(made: Database) -> None:
    """No appointment was taken in a later cycle than a younger one; `updated_at` is the cycle's."""
    with made.engine.begin() as connection:
        backlog.unlimited(connection)
        wrong = connection.execute(text(_OUT_OF_TURN)).scalar_one()
    if wrong:
        raise StructureError(f"{wrong} appointments expired after younger ones")


def a_days_outage(stage: Stage) -> Measured:
    """Cycle after cycle over one long backlog: an item at its end beside one at its beginning."""
    count = stage.size(100_000, 2_000)
    with stage.database() as made:
        backlog.bookings(made.engine, count)
        with stage.worker(made) as worker_process:
            done = worker_process.do("burn_down", items=stage.size(BATCH, 50))
        backlog.check_whole(made.engine, count)
        _oldest_first(made)
    line = [(x, y) for x, y in done["line"]]
    part = max(1, len(line) // _FIFTH)
    ends = {
        "first fifth": Samples([y for _, y in line[:part]], " ms per item"),
        "last fifth": Samples([y for _, y in line[-part:]], " ms per item"),
    }
    first, last = ends.values()
    ratio = Ratio([one / first.median for one in last.values])
    return Measured(ratio, ends, series={"ms per item over the backlog": line})


def catch_up(stage: Stage) -> Measured:
    """A real worker whose full cycles start the next one at once, beside one batch per tick."""
    batch, cycles = stage.size(BATCH, 50), stage.size(50, 4)
    count = batch * cycles
    options = {
        "APPOINTMENT_TIMEOUT_CATCH_UP": "1",
        "APPOINTMENT_TIMEOUT_BATCH_SIZE": str(batch),
    }
    with stage.database() as made:
        backlog.bookings(made.engine, count)
        with (
            worker(stage, made, **options) as celery,
            Celery(broker=stage.valkey.url, set_as_current=False) as sender,
        ):
            sender.send_task(CYCLE, queue=CYCLE, ignore_result=True)
            wait(lambda: _expired(made) >= count, celery, "no cycle followed")
        backlog.check_whole(made.engine, count)
        _oldest_first(made)
        with made.engine.begin() as connection:
            found = connection.execute(text(_CYCLES)).one()
    if found.cycles != cycles:
        raise StructureError(f"{found.cycles} cycles expired what {cycles} full ones would")
    return _paces(batch, count / found.seconds, found.gap)


def _paces(batch: int, rate: float, gap: float) -> Measured:
    interval = AppointmentTimeoutSettings.load().appointment_timeout_interval_seconds
    tick = batch / interval
    day = 100_000
    hours = math.ceil(day / batch) * interval / 3600
    notes = [
        f"{day:,} in {day / rate / 60:.1f} min, with a tick every {interval:g} s in {hours:.1f} h",
        f"from a cycle's end to the next one's start {gap:.0f} ms",
    ]
    paces = {"catch-up": Samples([rate]), "one batch per tick": Samples([tick])}
    return Measured(Ratio([rate / tick]), paces, notes)
