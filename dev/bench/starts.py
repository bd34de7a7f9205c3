"""Figures about starts: what is imported on the way, and how long a worker takes to be ready."""

import subprocess
import sys
import time
from collections.abc import Sequence

from dev.bench import rounds
from dev.bench.figure import Measured, Ratio, Samples, StructureError
from dev.bench.stage import Stage
from dev.bench.ticks import worker
from dev.processes import ROOT

COMMANDS = ("migrate", "runs", "status", "why", "verify", "outbox", "pause", "health", "expire")
NOT_FOR_HELP = ("celery", "kombu", "confluent_kafka", "alembic", "prometheus_client")
"""What no `--help` needs."""


def _seconds(argv: Sequence[str]) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, *argv], cwd=ROOT, check=True, capture_output=True)
    return (time.monotonic() - began) * 1000


def _imported(command: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "app", command, "--help"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    return [name for name in NOT_FOR_HELP if name in names]


def help_of_commands(stage: Stage) -> Measured:
    """Each command's `--help`, beside Python with the command line's own library."""
    for command in COMMANDS:
        if found := _imported(command):
            raise StructureError(f"{command} --help imports {', '.join(found)}")
    sides = {"typer alone": lambda: _seconds(["-c", "import typer, rich.console"])}
    sides |= {
        f"{name} --help": lambda name=name: _seconds(["-m", "app", name, "--help"])  # type: ignore[misc]
        for name in COMMANDS
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
