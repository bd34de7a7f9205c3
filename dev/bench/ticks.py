"""Figures with real Celery processes: what a tick costs, and how soon Kafka has what expired."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import quantiles

from celery import Celery
from sqlalchemy import text

from dev.bench import backlog, rounds
from dev.bench.figure import Measured, Ratio, Samples, StructureError
from dev.bench.stage import Database, Stage
from dev.processes import CeleryProcesses
from dev.servers.process import ServerError

CYCLE = "calendar.appointment_timeout"
"""The task, and its queue."""
EMPTY = "bench.empty"
_SECONDS = 120.0


def wait(condition: Callable[[], bool], celery: CeleryProcesses, what: str) -> None:
    """Until it is true; ServerError when the worker dies or two minutes have passed."""
    deadline = time.monotonic() + _SECONDS
    while not condition():
        celery.check()
        if time.monotonic() > deadline:
            raise ServerError(what)
        time.sleep(0.002)


@contextmanager
def worker(stage: Stage, made: Database, *options: str, **more: str) -> Iterator[CeleryProcesses]:
    """A worker of the product, ready."""
    environment = stage.environment(
        made, kafka=True, CELERY_BROKER_URL=stage.valkey.url, LOG_FORMAT="json", **more
    )
    celery = CeleryProcesses(stage.directory / "celery", environment)
    try:
        celery.start("worker", *options)
        log = celery.log("worker")
        wait(lambda: log.exists() and " ready." in log.read_text(), celery, "no worker is ready")
        yield celery
    finally:
        celery.close()


def own_cost(stage: Stage) -> Measured:
    """A tick that finds nothing, less the cycle itself, beside a task that does nothing."""
    count = stage.size(100, 10)
    spent = stage.directory / "spent"
    with (
        stage.database() as made,
        worker(
            stage, made, "-c", "1", "-I", "dev.bench.empty_task", BENCH_SPENT=str(spent)
        ) as celery,
        Celery(broker=stage.valkey.url, set_as_current=False) as sender,
    ):
        log = celery.log("worker")

        def done() -> int:
            return log.read_text().count(" succeeded in ")

        def milliseconds(task: str) -> float:
            before, _ = done(), spent.write_text("")
            began = time.perf_counter()
            for _ in range(count):
                sender.send_task(task, queue=CYCLE, ignore_result=True)
            wait(lambda: done() >= before + count, celery, f"{task} was not done")
            seconds = time.perf_counter() - began
            cycles = sum(map(float, spent.read_text().split()))
            return (seconds - cycles) * 1000 / count

        found = rounds.side_by_side(
            stage.rounds,
            {"tick": lambda: milliseconds(CYCLE), "empty task": lambda: milliseconds(EMPTY)},
            unit=" ms",
        )
    return Measured(rounds.divide(found["tick"], found["empty task"]), found)


_DELAYS = """
SELECT extract(epoch FROM m.published_at - pg_xact_commit_timestamp(a.xmin))::float * 1000
FROM calendar.outbox_messages m
JOIN calendar.appointments a ON a.id = (m.payload ->> 'AppointmentId')::uuid
"""


def commit_to_acknowledgement(stage: Stage) -> Measured:
    """Full cycles, one after the other, each waking the publisher by its first commit."""
    items, cycles = stage.size(200, 20), stage.size(10, 2)
    with stage.database() as made:
        backlog.bookings(made.engine, items * cycles)
        with (
            worker(stage, made, APPOINTMENT_TIMEOUT_BATCH_SIZE=str(items)) as celery,
            Celery(broker=stage.valkey.url, set_as_current=False) as sender,
        ):
            for number in range(1, cycles + 1):
                sender.send_task(CYCLE, queue=CYCLE, ignore_result=True)
                wanted = 2 * items * number
                wait(lambda n=wanted: _published(made) >= n, celery, "not published")  # type: ignore[misc]
        backlog.check_whole(made.engine, items * cycles)
        with made.engine.begin() as connection:
            delays = sorted(connection.execute(text(_DELAYS)).scalars())
    if len(delays) != 2 * items * cycles:
        raise StructureError(f"{len(delays)} delays of {2 * items * cycles} messages")
    percentiles = quantiles(delays, n=100)
    samples = {
        "p50": Samples([percentiles[49]], " ms"),
        "p99": Samples([percentiles[98]], " ms"),
        "longest": Samples([delays[-1]], " ms"),
    }
    return Measured(Ratio([percentiles[98]]), samples, [f"over {len(delays)} messages"])


def _published(made: Database) -> int:
    with made.engine.begin() as connection:
        return int(
            connection.execute(
                text("SELECT count(published_at) FROM calendar.outbox_messages")
            ).scalar_one()
        )
