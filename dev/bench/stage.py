"""The servers of a bench, started when first needed, and a database for each figure."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine

from app import database, migrations
from app.domain.outbox import TOPICS
from app.settings import DatabaseSettings
from dev.bench.crew import WorkerProcess
from dev.bench.limits import require_durable
from dev.processes import without
from dev.servers.apache_kafka import ApacheKafka
from dev.servers.kafka import Kafka
from dev.servers.postgres import Postgres
from dev.servers.valkey import Valkey

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",  # no checkpoint in the middle of one side of a comparison
    "checkpoint_timeout": "1h",
    "autovacuum": "off",  # it would meet one side and not the other; growth is measured without
    "track_commit_timestamp": "on",
}
EMBEDDED, APACHE = "embedded", "apache"

_OURS = ("APPOINTMENT_TIMEOUT_", "OUTBOX_", "JOB_RUNS_", "METRICS_", "KAFKA_", "LOG_", "OTEL_")
_TEMPLATE = "bench_template"

Size = TypeVar("Size")


@dataclass
class Database:
    """One figure's database."""

    url: str
    engine: Engine


@dataclass
class Stage:
    """Everything that figures are measured on; `short` asks for the structure, not for the time."""

    directory: Path
    ending: ExitStack
    short: bool
    kind: str = EMBEDDED
    _made: int = field(default=0)

    def size(self, full: Size, short: Size) -> Size:
        """How much, or which sizes, of something: times are told by the full one only."""
        return short if self.short else full

    @property
    def rounds(self) -> int:
        """How often each side is measured."""
        return self.size(7, 2)

    @cached_property
    def postgres(self) -> Postgres:
        """PostgreSQL that waits for the disk, with a migrated template."""
        server = Postgres(self.directory, durable=False, settings=SETTINGS)
        self.ending.callback(server.close)
        server.start()
        engine = _engine(server.create_database(_TEMPLATE), 1)
        migrations.apply(engine)
        require_durable(engine)
        engine.dispose()
        return server

    @cached_property
    def kafka(self) -> Kafka:
        """The broker, with three partitions a topic."""
        make = ApacheKafka if self.kind == APACHE else Kafka
        server = make(self.directory, topics=dict.fromkeys(TOPICS, 3))
        self.ending.callback(server.close)
        server.start()
        return server

    @cached_property
    def valkey(self) -> Valkey:
        """Celery's broker."""
        server = Valkey(self.directory)
        self.ending.callback(server.close)
        server.start()
        return server

    def topics(self) -> list[str]:
        """Two that are empty, to be read back as a whole; three partitions each."""
        self._made += 1
        made = [f"bench.{self._made}.{number}" for number in (1, 2)]
        self.kafka.create_topics(dict.fromkeys(made, 3))
        return made

    @contextmanager
    def database(self, like: "Database | None" = None) -> Iterator[Database]:
        """An empty database, or a copy of `like`, to which nobody may be connected then."""
        self._made += 1
        name = f"bench_{self._made}"
        template = _TEMPLATE if like is None else like.url.rpartition("/")[2]
        made = Database(url := self.postgres.create_database(name, template), _engine(url, 4))
        try:
            yield made
        finally:
            made.engine.dispose()
            self.postgres.drop_database(name)

    def environment(self, made: Database, *, kafka: bool = False, **more: str) -> dict[str, str]:
        """For the product's processes."""
        return {
            **without(os.environ, *_OURS),
            "DATABASE_URL": made.url,
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka.bootstrap if kafka else "nowhere:9092",
            **more,
        }

    def worker(
        self,
        made: Database,
        *,
        kafka: bool = False,
        observed: bool = False,
        collector: str | None = None,
        more: Mapping[str, str] | None = None,
    ) -> WorkerProcess:
        """A process of the product; observed: with logs and metrics, as in a worker of Celery.

        With traces too, where there is a collector; `more` is of its environment.
        """
        chosen = {"METRICS_PORT": "1", "TMPDIR": str(self.directory)} if observed else {}
        if collector:
            chosen["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector
        environment = {**self.environment(made, kafka=kafka, **chosen), **(more or {})}
        return WorkerProcess(environment, self.directory / "worker.log", observed=observed)


def _engine(url: str, connections: int) -> Engine:
    return database.engine(DatabaseSettings(database_url=url).url, connections)
