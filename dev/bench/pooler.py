"""What a pooler in transaction mode costs a cycle: nothing may be prepared behind it."""

from contextlib import ExitStack
from functools import partial

from dev.bench import backlog, rounds
from dev.bench.cycle import rate
from dev.bench.figure import Measured
from dev.bench.stage import Stage
from dev.servers.pgbouncer import Pgbouncer

PREPARED, WHOLE, POOLED = "direct, prepared", "direct, not prepared", "by PgBouncer, not prepared"


def in_transaction_mode(stage: Stage) -> Measured:
    """Three ways to one database, on four connections and on one."""
    items, count, lanes = stage.size(200, 50), stage.size(7, 2), (4, 1)
    with stage.database() as made, ExitStack() as closing:
        pooler = Pgbouncer(stage.directory, stage.postgres.port)
        closing.callback(pooler.close)
        pooler.start()
        whole = {"DATABASE_POOL_MODE": "transaction"}
        ways = {
            PREPARED: {},
            WHOLE: whole,
            POOLED: {**whole, "DATABASE_URL": pooler.through(made.url)},
        }
        backlog.bookings(made.engine, items * len(lanes) * len(ways) * (count + 1))
        workers = {
            name: closing.enter_context(stage.worker(made, more=way)) for name, way in ways.items()
        }
        found = rounds.side_by_side(
            count,
            {
                _named(name, number): partial(rate, worker, items, number)
                for number in lanes
                for name, worker in workers.items()
            },
        )
    first, *_ = lanes
    return Measured(
        rounds.divide(found[_named(POOLED, first)], found[_named(PREPARED, first)]), found
    )


def _named(way: str, connections: int) -> str:
    return f"{way}, {connections}"
