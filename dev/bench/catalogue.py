"""All figures, in the order of the table."""

from dev.bench import (
    cycle,
    drain,
    four_workers,
    growth,
    lateness,
    month,
    outage,
    pooler,
    publishers,
    starts,
    ticks,
)
from dev.bench.figure import STATED, Figure, Reach, at_least, at_most
from dev.servers.binaries import on_path

_ALL = (
    Figure(
        "cycle",
        "a cycle of 200 cascades ÷ a PL/pgSQL loop with COMMIT per item, items/s",
        at_least(0.9),
        cycle.against_the_loop,
    ),
    Figure(
        "cycle-slower-disk",
        "the same where a commit's flush takes 1 ms longer",
        at_least(0.9),
        cycle.on_a_slower_disk,
    ),
    Figure(
        "cycle-observed",
        "the same with logs, metrics and traces on ÷ the PL/pgSQL loop",
        at_least(0.8),
        cycle.observed,
    ),
    Figure(
        "cycle-by-hand",
        "a cycle ÷ the job written by hand with the ORM, items/s",
        at_least(8),
        cycle.against_by_hand,
    ),
    Figure(
        "cycle-connections",
        "a cycle on four connections ÷ on one, items/s",
        STATED,
        cycle.by_connections,
    ),
    Figure(
        "four-workers",
        "four processes on a backlog of 20,000 ÷ pgbench with four connections and the same SQL",
        at_least(0.8),
        four_workers.four_workers,
    ),
    Figure(
        "processes",
        "a backlog of 10,000 by four processes ÷ by one, items/s",
        STATED,
        four_workers.by_processes,
    ),
    Figure(
        "claim-by-size",
        "a claim at 10 million appointments ÷ at 10,000",
        at_most(1.5),
        growth.claim_by_size,
    ),
    Figure(
        "locked-head",
        "a cycle with 1,000 appointments locked at the head ÷ without",
        at_most(1.1),
        growth.locked_head,
    ),
    Figure(
        "dead-rows",
        "a cycle after 100,000 expiries without vacuum ÷ freshly vacuumed",
        at_most(1.2),
        growth.dead_rows,
    ),
    Figure(
        "old-snapshot",
        "a backlog of 20,000 with an old snapshot held ÷ without, items/s",
        at_least(0.9),
        growth.old_snapshot,
    ),
    Figure(
        "outage",
        "an item at the end of a backlog of 100,000 ÷ at its beginning",
        at_most(1.2),
        outage.a_days_outage,
    ),
    Figure(
        "catch-up",
        "a worker's pace with catch-up on ÷ one batch a tick, appointments/s",
        STATED,
        outage.catch_up,
    ),
    Figure(
        "lateness",
        "how late the 99th of a hundred expires ÷ what the model says",
        STATED,
        lateness.beside_the_model,
    ),
    Figure(
        "drain",
        "a drain of 100,000 messages ÷ the slower of sending and of reading and marking them",
        at_least(0.75),
        drain.against_the_slower_limit,
    ),
    Figure("drain-batches", "a drain in batches of 1,000 ÷ of 100", STATED, drain.by_batch),
    Figure(
        "publishers",
        "two publishers ÷ one, messages/s, over many keys; in order per key",
        at_least(1),
        publishers.two_publishers,
    ),
    Figure(
        "acknowledgement",
        "from an expiry's commit until Kafka's acknowledgement is noted, 99th percentile",
        Reach(250, at_least=False, unit=" ms"),
        ticks.commit_to_acknowledgement,
    ),
    Figure(
        "memory",
        "a worker's memory after 10,000 cycles ÷ after 100",
        at_most(1.1),
        growth.memory,
    ),
    Figure(
        "memory-of-drain",
        "a worker's highest memory over 1 million messages ÷ over 50,000",
        at_most(1.1),
        growth.drain_memory,
    ),
    Figure(
        "tick",
        "a tick less its cycle ÷ an empty task",
        at_most(1.2),
        ticks.own_cost,
    ),
    Figure(
        "help",
        "the slowest command's --help ÷ that of an empty program of the same library",
        at_most(2),
        starts.help_of_commands,
    ),
    Figure("ready", "seconds until a worker is ready", Reach(unit=" s"), starts.worker_ready),
    Figure(
        "month",
        "a drain after a month of 10 million messages ÷ on day one",
        at_least(0.9),
        month.after_a_month,
    ),
)
_WHERE_INSTALLED = {  # no wheel brings the program
    "pgbouncer": Figure(
        "pooler",
        "a cycle by PgBouncer in transaction mode, where nothing is prepared ÷ directly, prepared",
        STATED,
        pooler.in_transaction_mode,
    ),
}
FIGURES = {
    figure.name: figure
    for figure in (*_ALL, *(one for name, one in _WHERE_INSTALLED.items() if on_path(name)))
}
