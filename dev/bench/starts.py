"""Figures about starts: what is imported on the way, and how long a worker takes to be ready."""

import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial

from dev.bench import rounds
from dev.bench.figure import Measured, Ratio, Samples, StructureError
from dev.bench.stage import Stage
from dev.bench.ticks import worker
from dev.processes import ROOT

COMMANDS = (
    ("migrate",),
    ("runs",),
    ("status",),
    ("why",),
    ("verify",),
    ("outbox", "list"),
    ("pause",),
    ("health",),
    ("expire",),
    ("doctor",),
)
NOT_FOR_HELP = (
    "alembic",
    "app.settings",
    "celery",
    "confluent_kafka",
    "kombu",
    "prometheus_client",
    "psycopg2",
    "pydantic_settings",
    "rich",
    "sqlalchemy",
    "structlog",
)
"""What no `--help` needs. Not pydantic: typer itself imports it for a command of several."""
_BARE = """
import typer
app = typer.Typer(add_completion=False, rich_markup_mode=None)
@app.command()
def bare(count: int = 1, name: str | None = None) -> None:
    "Nothing."
@app.command()
def other() -> None:
    "Nothing either."
app(["bare", "--help"])
"""


def _seconds(argv: Sequence[str]) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, *argv], cwd=ROOT, check=True, capture_output=True)
    return (time.monotonic() - began) * 1000


def not_needed(command: Sequence[str]) -> list[str]:
    """What this command's `--help` imports in vain."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "app", *command, "--help"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    return [name for name in NOT_FOR_HELP if name in names]


def help_of_commands(stage: Stage) -> Measured:
    """Each command's `--help`, beside that of a program that does nothing."""
    for command in COMMANDS:
        if found := not_needed(command):
            raise StructureError(f"{' '.join(command)} --help imports {', '.join(found)}")
    sides = {"typer alone": partial(_seconds, ["-c", _BARE])}
    sides |= {
        f"{' '.join(command)} --help": partial(_seconds, ["-m", "app", *command, "--help"])
        for command in COMMANDS
    }
    measured = rounds.side_by_side(stage.size(5, 1), sides, unit=" ms")
    slowest = max(list(sides)[1:], key=lambda name: measured[name].median)
    return Measured(rounds.divide(measured[slowest], measured["typer alone"]), measured)


def worker_ready(stage: Stage) -> Measured:
    """From the command to `ready`, with a database and Kafka that answer."""
    seconds = []
    for _ in range(stage.size(3, 1)):
        with stage.database() as made:
            began = time.monotonic()
            with worker(stage, made):
                seconds.append(time.monotonic() - began)
    return Measured(Ratio(seconds), {"ready after": Samples(seconds, " s")})
