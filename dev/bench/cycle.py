"""Figures about the cycle: items a second, beside what PostgreSQL can do and what a team writes."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from dev.bench import backlog, rounds
from dev.bench.collector import collector
from dev.bench.crew import WorkerProcess
from dev.bench.figure import Measured, Samples, StructureError
from dev.bench.limits import InDatabaseLoop
from dev.bench.stage import Database, Stage

LOOP, CYCLE, OBSERVED, BY_HAND = "in-database loop", "cycle", "cycle, observed", "by hand"


def rate(worker: WorkerProcess, items: int, lanes: int = 4) -> float:
    """Items a second of one cycle, which has to expire them all."""
    done = worker.do("cycle", items=items, lanes=lanes)
    if done["ExpiredCount"] != items:
        raise StructureError(f"a cycle of {items} expired {done['ExpiredCount']}")
    return items / float(done["seconds"])


def _compare(
    stage: Stage, *names: str, slower_disk: bool = False, collector: str | None = None
) -> dict[str, Samples]:
    """These, in turns, on one backlog that they share."""
    items, count = stage.size(200, 50), stage.size(9, 2)
    with ExitStack() as closing:
        made = closing.enter_context(stage.database())
        if slower_disk:
            _slow_down(made)
        backlog.bookings(made.engine, items * len(names) * (count + 1))
        sides = {name: _side(stage, made, closing, name, items, collector) for name in names}
        found = rounds.side_by_side(count, sides)
        backlog.check_whole(made.engine, items * len(names) * (count + 1))
    return found


def _slow_down(made: Database) -> None:
    """A flush takes 1 ms longer, as on a disk across a network; who comes meanwhile shares it."""
    name = made.url.rpartition("/")[2]
    with made.engine.begin() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET commit_delay = 1000")
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET commit_siblings = 0")
    made.engine.dispose()


def _side(
    stage: Stage,
    made: Database,
    closing: ExitStack,
    name: str,
    items: int,
    collector: str | None,
) -> Callable[[], float]:
    if name == LOOP:
        loop = InDatabaseLoop(made.engine)
        closing.callback(loop.close)
        return lambda: loop.run(items)
    watched = name == OBSERVED
    worker = closing.enter_context(
        stage.worker(made, observed=watched, collector=collector if watched else None)
    )
    if name == BY_HAND:
        return lambda: float(worker.do("by_hand", items=items)["rate"])
    return partial(rate, worker, items)


def against_the_loop(stage: Stage) -> Measured:
    """One process, nobody listening."""
    found = _compare(stage, LOOP, CYCLE)
    return Measured(rounds.divide(found[CYCLE], found[LOOP]), found)


def on_a_slower_disk(stage: Stage) -> Measured:
    """Where a commit costs what it costs on most servers."""
    found = _compare(stage, LOOP, CYCLE, slower_disk=True)
    return Measured(rounds.divide(found[CYCLE], found[LOOP]), found)


def observed(stage: Stage) -> Measured:
    """One process, everything written down, counted and traced to a collector beside it."""
    with collector() as collected:
        found = _compare(stage, LOOP, OBSERVED, CYCLE, collector=collected.url)
    cycles = collected.spans["cycle"]
    items = stage.size(200, 50) * cycles
    if cycles <= len(found[OBSERVED].values) or collected.spans["item"] != items:
        raise StructureError(f"of {items} items in {cycles} cycles came {collected.spans}")
    cost = rounds.divide(found[OBSERVED], found[CYCLE]).median
    notes = [
        f"observed ÷ unobserved: {cost:.2f}",
        f"{collected.spans.total()} spans in {collected.batches} batches",
    ]
    return Measured(rounds.divide(found[OBSERVED], found[LOOP]), found, notes)


def against_by_hand(stage: Stage) -> Measured:
    """Beside the ORM."""
    found = _compare(stage, BY_HAND, CYCLE)
    return Measured(rounds.divide(found[CYCLE], found[BY_HAND]), found)


def by_connections(stage: Stage) -> Measured:
    """What further connections of one process bring."""
    items, count, lanes = stage.size(200, 50), stage.size(5, 2), (1, 2, 3, 4, 6)
    with stage.database() as made, ExitStack() as closing:
        backlog.bookings(made.engine, items * len(lanes) * (count + 1))
        worker = closing.enter_context(stage.worker(made))

        def rate(number: int) -> float:
            return items / float(worker.do("cycle", items=items, lanes=number)["seconds"])

        sides = {f"{number} connections": partial(rate, number) for number in lanes}
        found = rounds.side_by_side(count, sides)
    line = [(number, side.median) for number, side in zip(lanes, found.values(), strict=True)]
    ratio = rounds.divide(found["4 connections"], found["1 connections"])
    return Measured(ratio, found, series={"items/s by connections of one process": line})
