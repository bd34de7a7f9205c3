"""Figures about the drain: messages a second, beside its two limits."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from sqlalchemy import text

from dev.bench import backlog, rounds
from dev.bench.crew import side_by_side
from dev.bench.figure import Measured, Ratio, StructureError
from dev.bench.stage import Database, Stage

BATCH = 1000
"""OUTBOX_PUBLISHER_BATCH_SIZE by default."""
DRAIN, SEND, MARK = "drain", "sending from memory", "reading and marking"


def _waiting(made: Database) -> int:
    with made.engine.begin() as connection:
        return int(
            connection.execute(
                text("SELECT count(*) FROM calendar.outbox_messages WHERE published_at IS NULL")
            ).scalar_one()
        )


def drain(stage: Stage, made: Database, publishers: int, batch: int = BATCH) -> float:
    """The rate of so many processes on one backlog, producers warm."""
    with ExitStack() as closing:
        workers = [closing.enter_context(stage.worker(made, kafka=True)) for _ in range(publishers)]
        side_by_side(workers, "send_only", count=1)
        waiting = _waiting(made)
        began = time.monotonic()
        done = side_by_side(workers, "drain", batch=batch)
        seconds = time.monotonic() - began
        count = sum(int(one["published"]) for one in done)
        if wrong := [one for one in done if one["outcome"] != "completed"]:
            raise StructureError(f"a drain ended as {wrong[0]['outcome']}: {wrong[0]['detail']}")
        if count != waiting or _waiting(made):
            raise StructureError(f"of {waiting} messages {count} were published, and not once")
    return count / seconds


def _drain(stage: Stage, filled: Database, batch: int = BATCH) -> float:
    """On a fresh copy, by one process."""
    with stage.database(filled) as made:
        return drain(stage, made, 1, batch)


def _mark(stage: Stage, filled: Database, batch: int = BATCH) -> float:
    with stage.database(filled) as made, stage.worker(made) as worker:
        return float(worker.do("mark_only", batch=batch)["rate"])


def _send(stage: Stage, filled: Database, count: int) -> float:
    with stage.worker(filled, kafka=True) as worker:
        return float(worker.do("send_only", count=count)["rate"])


def _slower(above: Sequence[float], *limits: Sequence[float]) -> Ratio:
    return Ratio([one / min(others) for one, *others in zip(above, *limits, strict=True)])


def against_the_slower_limit(stage: Stage) -> Measured:
    """One process, each message with its own key, as expiries write them."""
    count = stage.size(100_000, 4_000)
    with stage.database() as filled:
        backlog.messages(filled.engine, count)
        filled.engine.dispose()
        found = rounds.side_by_side(
            stage.size(5, 1),
            {
                SEND: lambda: _send(stage, filled, count),
                MARK: lambda: _mark(stage, filled),
                DRAIN: lambda: _drain(stage, filled),
            },
            warm_up=stage.size(1, 0),
        )
    ratio = _slower(found[DRAIN].values, found[SEND].values, found[MARK].values)
    return Measured(ratio, found)


def by_batch(stage: Stage) -> Measured:
    """What larger batches bring."""
    count = stage.size(50_000, 2_000)
    sizes = stage.size((100, 500, 1000, 2000, 5000), (100, 1000))
    with stage.database() as filled:
        backlog.messages(filled.engine, count)
        filled.engine.dispose()
        sides = {f"batches of {size}": partial(_drain, stage, filled, batch=size) for size in sizes}
        found = rounds.side_by_side(stage.size(3, 1), sides, warm_up=0)
    line = [(size, side.median) for size, side in zip(sizes, found.values(), strict=True)]
    ratio = rounds.divide(found["batches of 1000"], found["batches of 100"])
    return Measured(ratio, found, series={"messages/s by size of a batch": line})
