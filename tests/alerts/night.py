"""The whole product at work, watched by a Prometheus whose minutes last a second.

The shipped rules and configuration with every duration divided by sixty; the product's interval
likewise, and its lock timeout, since a scrape has less time than that. Nothing else is changed.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2
import yaml
from psycopg2.extensions import connection as Session  # noqa: N812 - a class with a small name

from app.domain.outbox import TOPICS
from dev.servers.kafka import Kafka
from dev.servers.port import LOOPBACK, free_port
from dev.servers.postgres import Postgres
from dev.servers.prometheus import Prometheus
from dev.servers.valkey import Valkey
from tests.alerts.runbook import ROOT
from tests.conftest import TEMPLATE, engine_for
from tests.neighbour import wait_until
from tests.system.celery_process import CeleryProcess, celery
from tests.world import World

OPS = ROOT / "ops" / "prometheus"
RULES = sorted((OPS / "rules").glob("*.yml"))
BATCH_SIZE = 10
_PACE = {
    "APPOINTMENT_TIMEOUT_INTERVAL_SECONDS": "1",
    "APPOINTMENT_TIMEOUT_BATCH_SIZE": str(BATCH_SIZE),
    "OUTBOX_PUBLISHER_INTERVAL_SECONDS": "1",
}
_LOCK_TIMEOUT = "?options=-c%20lock_timeout%3D100ms"
_SCRAPE = "500ms"
REPOSITORY = "https://git.example.com/calendar/blob/main/"


def hastened(rules: str) -> str:
    """Minutes become seconds, in durations and in thresholds."""
    return re.sub(r"\b(\d+) \* 60\b", r"\1", re.sub(r"\b(\d+)m\b", r"\1s", rules))


def hastened_config(target: str) -> str:
    """The shipped configuration at that pace, scraping `target`."""
    config: dict[str, Any] = yaml.safe_load((OPS / "prometheus.yml").read_text())
    config["global"] |= {
        "scrape_interval": _SCRAPE,
        "evaluation_interval": _SCRAPE,
        "external_labels": {"repository": REPOSITORY},
    }
    [job] = config["scrape_configs"]
    del job["dns_sd_configs"]
    return yaml.safe_dump(
        config | {"scrape_configs": [{**job, "static_configs": [{"targets": [target]}]}]}
    )


class Night:
    """Servers, a worker, a beat and a Prometheus; and a shell for the person who is called."""

    def __init__(self, running: ExitStack, directory: Path, postgres: Postgres) -> None:
        self._running = running
        self._directory = directory
        self.postgres = postgres
        name = f"night_{uuid4().hex[:12]}"
        self.url = postgres.create_database(name, template=TEMPLATE)
        self.world = World(engine_for(postgres, name))
        running.callback(postgres.drop_database, name)
        running.callback(self.world.engine.dispose)
        self.kafka = running.enter_context(Kafka(directory, topics=dict.fromkeys(TOPICS, 3)))
        valkey = running.enter_context(Valkey(directory))
        port = free_port()
        self.environment = {
            **_PACE,
            "PATH": f"{Path(sys.executable).parent}:{postgres.bin_dir}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "DATABASE_URL": self.url + _LOCK_TIMEOUT,
            "CELERY_BROKER_URL": valkey.url,
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka.bootstrap,
            "METRICS_PORT": str(port),
        }
        self.worker, self.beat = self.start("worker"), self.start("beat")
        (directory / "rules").mkdir()
        for rules in RULES:
            (directory / "rules" / rules.name).write_text(hastened(rules.read_text()))
        config = hastened_config(f"{LOOPBACK}:{port}")
        self.prometheus = running.enter_context(Prometheus(directory, config))
        wait_until(lambda: self.prometheus.query("up == 1"), "the first scrape")

    def start(self, command: str) -> CeleryProcess:
        """A worker or a beat, until the morning."""
        started = celery(command, environment=self.environment, directory=self._directory)
        return self._running.enter_context(started)

    def run(self, *commands: str, **variables: str) -> str:
        """What a shell says to these commands; a worker or a beat goes on in the background."""
        said = ""
        for command in commands:
            if service := re.fullmatch(r"celery -A tasks (worker|beat)\n", command):
                setattr(self, service[1], self.start(service[1]))
                continue
            ran = subprocess.run(
                ["bash", "-uc", command],
                cwd=ROOT,
                env={**self.environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            )
            said += ran.stdout
        return said

    @contextmanager
    def foreign_session(self, statement: str) -> Iterator[Session]:
        """Another program's transaction, which has done this and then forgotten itself."""
        session = psycopg2.connect(self.url, application_name="monthly-report")
        try:
            with session.cursor() as cursor:
                cursor.execute(statement)
            yield session
        finally:
            session.close()


@contextmanager
def night(directory: Path, postgres: Postgres) -> Iterator[Night]:
    """One night, over at the end of the block."""
    with ExitStack() as running:
        yield Night(running, directory, postgres)
