"""Figures about growth: what stays as it is while tables, locks, dead rows and snapshots grow."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from statistics import median

from sqlalchemy import Engine, text

from app.store import claims
from dev.bench import backlog, rounds
from dev.bench.figure import Measured, Samples, StructureError
from dev.bench.limits import InDatabaseLoop
from dev.bench.stage import Database, Stage

BATCH = 200
_LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


def _claim_milliseconds(engine: Engine, as_of: datetime | None) -> float:
    """The median of a hundred claims, each behind the one before; nothing is kept."""
    spent, cursor = [], claims.START
    with engine.connect() as connection:
        claims.CLAIM_NEXT.prepare(connection)
        connection.rollback()
        at = as_of or claims.open_cycle(connection, 1).as_of
        for _ in range(100):
            began = time.perf_counter()
            claim = claims.claim(connection, claims.Wanted(at, cursor))
            spent.append((time.perf_counter() - began) * 1000)
            connection.rollback()
            if (claim is None) != (as_of is not None):
                raise StructureError("a claim found nothing, or what is not overdue")
            cursor = cursor if claim is None else claim.position
    return median(spent)


def claim_by_size(stage: Stage) -> Measured:
    """The claim in tables of several sizes, and where nothing is overdue."""
    sizes = [stage.size(full, full // 500) for full in (10_000, 100_000, 1_000_000, 10_000_000)]
    overdue = stage.size(50_000, 1_000)
    with ExitStack() as closing:
        sides = {}
        for count in sizes:
            made = closing.enter_context(stage.database())
            backlog.crowd(made.engine, count)
            backlog.bookings(made.engine, min(overdue, max(count // 10, BATCH)))
            sides[f"claim at {count:,}"] = partial(_claim_milliseconds, made.engine, None)
        sides["nothing overdue"] = partial(_claim_milliseconds, made.engine, _LONG_AGO)
        found = rounds.side_by_side(stage.rounds, sides, unit=" ms")
    small, *_, large = (found[f"claim at {count:,}"] for count in sizes)
    line = [(count, found[f"claim at {count:,}"].median) for count in sizes]
    ratio = rounds.divide(large, small)
    return Measured(ratio, found, series={"ms per claim by appointments": line})


def _cycle(stage: Stage, closing: ExitStack, made: Database) -> Callable[[], float]:
    worker = closing.enter_context(stage.worker(made))

    def seconds() -> float:
        done = worker.do("cycle", items=BATCH)
        if done["ExpiredCount"] != BATCH:
            raise StructureError(f"a cycle of {BATCH} expired {done['ExpiredCount']}")
        return float(done["seconds"]) * 1000

    return seconds


@contextmanager
def _held(engine: Engine, statement: str) -> Iterator[None]:
    """Somebody holds what this statement locks or sees, for as long as the block lasts."""
    with engine.connect() as connection:
        connection.execute(text("SET idle_in_transaction_session_timeout = 0"))
        connection.commit()
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        connection.execute(text(statement)).all()
        yield
        connection.rollback()
        connection.execute(text("RESET idle_in_transaction_session_timeout"))


_HEAD = """SELECT {what} FROM calendar.appointments WHERE status = 'Pending'
    ORDER BY pending_expires_at, id LIMIT {count}"""


def locked_head(stage: Stage) -> Measured:
    """Whole cycles with the oldest appointments, or their slots, in somebody else's hands."""
    locked = stage.size(1_000, 50)
    head = _HEAD.format(what="id", count=locked) + " FOR UPDATE"
    slots = _HEAD.format(what="slot_id", count=locked)
    holds = {
        "without locks": "SELECT 1",
        f"{locked} appointments locked": head,
        f"{locked} slots locked": f"SELECT FROM calendar.availability_slots"
        f" WHERE id IN ({slots}) FOR UPDATE",
    }
    with ExitStack() as closing:
        filled = closing.enter_context(stage.database())
        backlog.bookings(filled.engine, locked + BATCH * (stage.rounds + 2))
        filled.engine.dispose()
        sides = {}
        for name, statement in holds.items():
            made = closing.enter_context(stage.database(filled))
            closing.enter_context(_held(made.engine, statement))
            sides[name] = _cycle(stage, closing, made)
        found = rounds.side_by_side(stage.rounds, sides, unit=" ms")
    free, appointments, their_slots = (found[name] for name in holds)
    slot_ratio = rounds.divide(their_slots, free).median
    notes = [f"with {locked} slots locked instead: {slot_ratio:.2f}"]
    return Measured(rounds.divide(appointments, free), found, notes)


def dead_rows(stage: Stage) -> Measured:
    """Cycles behind what has expired and was never vacuumed, beside a vacuumed copy."""
    count = stage.size(100_000, 2_000)
    with ExitStack() as closing:
        worn = closing.enter_context(stage.database())
        backlog.bookings(worn.engine, count + BATCH * (stage.rounds + 2))
        loop = InDatabaseLoop(worn.engine)
        loop.run(count)
        loop.close()
        worn.engine.dispose()
        fresh = closing.enter_context(stage.database(worn))
        backlog.settle(fresh.engine)
        sides = {
            "never vacuumed": _cycle(stage, closing, worn),
            "freshly vacuumed": _cycle(stage, closing, fresh),
        }
        found = rounds.side_by_side(stage.rounds, sides, unit=" ms")
    return Measured(rounds.divide(found["never vacuumed"], found["freshly vacuumed"]), found)


def old_snapshot(stage: Stage) -> Measured:
    """A whole backlog in cycles, with and without a snapshot from before it."""
    count = stage.size(20_000, 1_000)
    series: dict[str, list[tuple[float, float]]] = {}

    def rate(name: str, held: str) -> float:
        with stage.database(filled) as made, stage.worker(made) as worker, _held(made.engine, held):
            done = worker.do("burn_down", items=BATCH)
            backlog.check_whole(made.engine, count)
        series[f"ms per item, {name}"] = [(x, y) for x, y in done["line"]]
        return count / float(done["seconds"])

    with stage.database() as filled:
        backlog.bookings(filled.engine, count)
        filled.engine.dispose()
        found = rounds.side_by_side(
            stage.size(3, 1),
            {
                "without": lambda: rate("without", "SELECT 1"),
                "with": lambda: rate("with", "SELECT count(*) FROM calendar.schema_level"),
            },
            warm_up=0,
        )
    return Measured(rounds.divide(found["with"], found["without"]), found, series=series)


def memory(stage: Stage) -> Measured:
    """One process over many cycles."""
    first, last = stage.size(100, 10), stage.size(10_000, 60)
    items = 2
    with stage.database() as made:
        backlog.bookings(made.engine, items * last)
        with stage.worker(made, observed=True) as worker:
            early = worker.do("cycles", count=first, items=items)["now"]
            late = worker.do("cycles", count=last - first, items=items)["now"]
        backlog.check_whole(made.engine, items * last)
    sizes = {
        f"after {first} cycles": Samples([early / 2**20], " MB"),
        f"after {last} cycles": Samples([late / 2**20], " MB"),
    }
    few, many = sizes.values()
    return Measured(rounds.divide(many, few), sizes)


def drain_memory(stage: Stage) -> Measured:
    """The highest a process gets over a small and over a large backlog."""
    found = {}
    for count in (stage.size(50_000, 3_000), stage.size(1_000_000, 6_000)):
        with stage.database() as made:
            backlog.messages(made.engine, count)
            with stage.worker(made, kafka=True) as worker:
                published = worker.do("drain", batch=1000)["published"]
                if published != count:
                    raise StructureError(f"{published} of {count} messages are published")
                peak = worker.do("memory")["peak"] / 2**20
        found[f"peak over {count:,} messages"] = Samples([peak], " MB")
    few, many = found.values()
    return Measured(rounds.divide(many, few), found)
