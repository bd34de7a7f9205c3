"""PostgreSQL goes away, or refuses."""

from contextlib import ExitStack, suppress

import psycopg2

from dev.chaos import records
from dev.chaos.fault import fault
from dev.chaos.stage import Stage
from dev.servers.postgres import Shutdown


def _restarts(stage: Stage, mode: Shutdown) -> None:
    for _ in stage.pace.times(full=3, short=1):
        stage.postgres.restart(mode)


@fault(
    "postgres-fast",
    does="PostgreSQL is restarted in good order (fast: it ends all sessions)",
    undone="it is back at once",
)
def postgres_fast(stage: Stage) -> None:
    """Restart it, fast."""
    _restarts(stage, "fast")


@fault(
    "postgres-immediate",
    does="PostgreSQL is restarted as after a crash (immediate: no checkpoint, recovery from WAL)",
    undone="it is back at once",
)
def postgres_immediate(stage: Stage) -> None:
    """Restart it, immediately."""
    _restarts(stage, "immediate")


@fault(
    "postgres-killed",
    does="PostgreSQL and all its backends are killed (SIGKILL)",
    undone="it is started again at once",
)
def postgres_killed(stage: Stage) -> None:
    """Kill it."""
    for _ in stage.pace.times(full=3, short=1):
        stage.postgres.kill()
        stage.postgres.start()


@fault(
    "postgres-down",
    does="PostgreSQL is down for three ticks (short: of 2 s; full: of 60 s)",
    undone="it is started again",
)
def postgres_down(stage: Stage) -> None:
    """Stop it for a while."""
    stage.postgres.stop("fast")
    try:
        stage.pace.hold(full=180, short=6)
    finally:
        stage.postgres.start()


@fault(
    "postgres-frozen",
    does="PostgreSQL hangs (SIGSTOP): its host acknowledges every byte, and nothing answers",
    undone="it goes on (SIGCONT)",
)
def postgres_frozen(stage: Stage) -> None:
    """As storage that does not answer."""
    stage.postgres.freeze()
    try:
        stage.pace.hold(full=60, short=6)
    finally:
        stage.postgres.thaw()


@fault(
    "backends-terminated",
    does="every half second all backends of the product are terminated",
    undone="they are left alone",
)
def backends_terminated(stage: Stage) -> None:
    """Terminate them again and again."""
    for _ in stage.pace.beats(0.5, full=60, short=6):
        terminate(stage)


def terminate(stage: Stage) -> None:
    """End every session of the product."""
    with stage.judges.connect() as connection:
        records.rows(
            connection,
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = :name""",
            name=records.PRODUCT,
        )


@fault(
    "connections-exhausted",
    does="a neighbour takes every connection that PostgreSQL has, the product's included",
    undone="the neighbour leaves",
)
def connections_exhausted(stage: Stage) -> None:
    """Take them all, keep them, and take what becomes free."""
    with ExitStack() as neighbours:
        for _ in stage.pace.beats(0.2, full=60, short=6):
            _take_all(stage, neighbours)


def _take_all(stage: Stage, neighbours: ExitStack) -> None:
    """Take what is free, ending a session of the product with each, until there is none left."""
    with suppress(psycopg2.OperationalError):  # too many clients
        while True:
            connection = psycopg2.connect(stage.url, application_name="chaos-neighbour")
            neighbours.callback(connection.close)
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = %s",
                    (records.PRODUCT,),
                )
