"""What `make up` starts and tells: the servers, the schema, Celery, the addresses."""

import os
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from sqlalchemy import text

from app import database
from app.domain.outbox import TOPICS
from app.settings import DatabaseSettings, TelemetrySettings
from dev.processes import (
    ROOT,
    CeleryProcesses,
    Ending,
    Failure,
    answers,
    command,
    place,
    shown,
)
from dev.servers.port import LOOPBACK, free_port, is_free
from dev.servers.stack import CELERY_BROKER_URL, DATABASE_URL, KAFKA_BOOTSTRAP_SERVERS, Stack
from dev.up_log import WorkerLog

# What people can remember: used where they are free.
MEMORABLE = {"postgres": 15432, "valkey": 16379, "kafka": 19092, "flower": 5555, "metrics": 9808}
_READY = 60.0  # seconds
_LOOK = 0.25


class Up:
    """The servers and processes of one `make up`, in `directory`, undone by `ending`.

    `wanted` are ports, by the names of `MEMORABLE`; any that is free takes the place of others.
    """

    def __init__(
        self, console: Console, ending: Ending, directory: Path, wanted: Mapping[str, int]
    ) -> None:
        ports = {name: port for name, port in wanted.items() if is_free(port)}
        self.console = console
        self.ending = ending
        self.directory = directory
        self.flower_port = ports.get("flower") or free_port()
        self.metrics_port = (
            TelemetrySettings.load().metrics_port or ports.get("metrics") or free_port()
        )
        self.stack = Stack(
            directory,
            durable=True,
            topics=dict.fromkeys(TOPICS, 3),
            postgres_port=ports.get("postgres"),
            valkey_port=ports.get("valkey"),
            kafka_port=ports.get("kafka"),
        )

    def stay(self) -> NoReturn:
        """Start everything, and show the work until a signal or a death ends it."""
        self.console.print("Starting PostgreSQL, Valkey, Kafka, a worker, beat and Flower …")
        self.ending.callback(self.stack.stop)
        self.stack.start()
        self.celery = CeleryProcesses(self.directory, self.environment())
        self.ending.callback(self.celery.close)
        self.ending.callback(self.console.print, "\nStopping; the worker finishes what it holds …")
        self.furnish()
        self.start_celery()
        self.tell_addresses()
        log = WorkerLog(self.celery.log("worker"))
        while True:
            for line in log.new_lines():
                self.console.print(line, soft_wrap=True)
            self.look_after()
            time.sleep(_LOOK)

    def environment(self) -> dict[str, str]:
        """For the product's processes."""
        return {
            **os.environ,
            **self.stack.environment,
            "LOG_FORMAT": "console",
            "METRICS_PORT": str(self.metrics_port),
            "FLOWER_UNAUTHENTICATED_API": "true",  # it listens on loopback only
        }

    def furnish(self) -> None:
        """The schema; and something to look at, in an own database that has nothing yet."""
        self.console.print(command(["app", "migrate"], self.celery.environment))
        url = DatabaseSettings(database_url=self.stack.environment[DATABASE_URL]).url
        with database.engine(url, 1).begin() as connection:
            used = connection.execute(text("SELECT EXISTS (SELECT FROM calendar.appointments)"))
            empty = not used.scalar_one()
        if empty and self.stack.postgres is not None:
            self.console.print(command(["app", "sample"], self.celery.environment))

    def start_celery(self) -> None:
        """Worker, beat and Flower; return when the worker works and Flower answers."""
        self.celery.start("worker", "-n", "up@%h")
        self.celery.start("beat")
        self.celery.start("flower", f"--address={LOOPBACK}", f"--port={self.flower_port}")
        deadline = time.monotonic() + _READY
        while not all(answers(address) for address in (self.flower, self.metrics)):
            self.look_after()
            if time.monotonic() > deadline:
                raise Failure(f"The worker or Flower is not ready after {_READY:.0f} s.")
            time.sleep(_LOOK)

    @property
    def flower(self) -> str:
        """Where Flower is."""
        return f"http://{LOOPBACK}:{self.flower_port}"

    @property
    def metrics(self) -> str:
        """Where the worker's metrics are."""
        return f"http://{LOOPBACK}:{self.metrics_port}/metrics"

    def tell_addresses(self) -> None:
        """Where everything is, and how another shell gets at it."""
        found = self.stack.environment
        servers = {
            "PostgreSQL": found[DATABASE_URL],
            "Redis": found[CELERY_BROKER_URL],
            "Kafka": found[KAFKA_BOOTSTRAP_SERVERS],
        }
        ours = {name: value for name, value in found.items() if not os.environ.get(name)}
        log = shown(self.celery.log("worker"))
        lines = [
            "",
            "[bold green]The product is up.[/] Ctrl-C stops it.",
            "",
            *(f"  {name:12}{place(address)}" for name, address in servers.items()),
            f"  {'Flower':12}{self.flower}",
            f"  {'Metrics':12}{self.metrics}",
            "",
            "For another shell:",
            "",
            f"  cd {shlex.quote(str(ROOT))}",
            f'  export PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"',
            *(f"  export {name}={shlex.quote(value)}" for name, value in ours.items()),
            "  celery -A tasks call calendar.appointment_timeout",
            "  python -m app status",
            "",
            f"[dim]The worker at work (its whole log: {log}):[/]",
        ]
        self.console.print("\n".join(lines), soft_wrap=True)

    def look_after(self) -> None:
        """ServerError as soon as anything of ours has died."""
        self.celery.check()
        self.stack.check()
