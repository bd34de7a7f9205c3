"""All that can be struck: the servers, the proxies before them, the product, the people."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import Engine

from app import database, migrations
from app.domain.outbox import TOPICS
from app.settings import DatabaseSettings
from dev.chaos import records, topics
from dev.chaos.kafkas import APACHE, broker
from dev.chaos.listener import Listener
from dev.chaos.load import Load
from dev.chaos.pace import INTERVAL, RATE, Pace
from dev.chaos.people import NOTES
from dev.chaos.product import BEAT, WORKERS, Product
from dev.processes import Ending, without
from dev.servers.port import LOOPBACK, free_port
from dev.servers.postgres import Postgres
from dev.servers.proxy import Proxy
from dev.servers.valkey import Valkey

PARTITIONS = dict.fromkeys((*TOPICS, NOTES), 3)
DATABASE = "calendar"
LOG = "kafka"
"""What the listener calls Kafka's log, to tell it from that of another broker."""
MAX_CONNECTIONS = 60

_HEAR_SECONDS = 30.0
_OTHERS = ("APPOINTMENT_TIMEOUT_", "OUTBOX_", "METRICS_", "KAFKA_", "LOG_FORMAT")
_DURABLE = {"fsync": "on", "full_page_writes": "on", "max_connections": str(MAX_CONNECTIONS)}


class Stage:
    """PostgreSQL (durable), Valkey, Kafka, beat and two workers, the load, and who listens.

    The product reaches every server through a proxy; load and judges reach PostgreSQL directly.
    """

    def __init__(self, directory: Path, *, kind: str, pace: Pace, seed: int) -> None:
        self.directory, self.kind, self.pace, self.seed = directory, kind, pace, seed
        self.random = random.Random(seed)  # noqa: S311 - chaos, not secrets
        self.postgres = Postgres(directory, durable=False, settings=_DURABLE)
        self.valkey = Valkey(directory)
        self.listener = Listener(PARTITIONS)
        self.topics_are_whole = True
        """Whether all that was ever published still lies on Kafka's topics."""
        self.afterwards: list[Callable[[], None]] = []
        """What is to be undone after the judgement only."""

    def build(self, ending: Ending, say: Callable[[str], None]) -> None:
        """Start everything, the load included; `ending` undoes it."""
        say("starting PostgreSQL and Valkey")
        self._start_servers(ending)
        say("starting Kafka")
        self._start_kafka(ending)
        say("starting beat and two workers")
        self.product = Product(self.directory, self._environment())
        ending.callback(self.product.close)
        ending.callback(self.undo)  # before that, so that nothing hangs
        self.product.start(*WORKERS, BEAT)
        self.load = Load(self.url, seed=self.seed, rate=RATE)
        ending.callback(self.load.end)

    def _start_servers(self, ending: Ending) -> None:
        for server in (self.postgres, self.valkey):
            ending.callback(server.close)
            server.start()
        self.url = self.postgres.create_database(DATABASE)
        self.judges: Engine = records.engine_for(self.url)
        migrator = database.engine(DatabaseSettings(database_url=self.url).url, 1)
        migrations.apply(migrator)
        migrator.dispose()
        with self.judges.begin() as connection:
            connection.exec_driver_sql("CREATE EXTENSION pgrowlocks")
        self.to_postgres = ending.enter_context(Proxy(self.postgres.port))
        self.to_valkey = ending.enter_context(Proxy(self.valkey.port))

    def _start_kafka(self, ending: Ending) -> None:
        port = free_port()
        self.to_kafka = ending.enter_context(Proxy(port))
        self.kafka = broker(
            self.kind, self.directory, port=port, topics=PARTITIONS, advertised=self.to_kafka.port
        )
        ending.callback(self.kafka.close)
        ending.callback(self.listener.close)
        self.kafka.start()
        self.listener.listen(self.bootstrap, LOG)

    @property
    def bootstrap(self) -> str:
        """Kafka, through its proxy."""
        return f"{LOOPBACK}:{self.to_kafka.port}"

    def _environment(self) -> dict[str, str]:
        return {
            **without(os.environ, *_OTHERS),
            "DATABASE_URL": f"postgresql://postgres@{LOOPBACK}:{self.to_postgres.port}/{DATABASE}",
            "CELERY_BROKER_URL": f"redis://{LOOPBACK}:{self.to_valkey.port}/0",
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap,
            "APPOINTMENT_TIMEOUT_INTERVAL_SECONDS": str(INTERVAL),
            "OUTBOX_PUBLISHER_INTERVAL_SECONDS": str(INTERVAL),
            "APPOINTMENT_TIMEOUT_MAX_DURATION_SECONDS": str(self.pace.budget),
        }

    def heard_all(self) -> bool:
        """Wait until all that the product calls published was heard; false when it is not."""
        with self.judges.connect() as connection:
            wanted = topics.published(connection)
        return records.wait(lambda: wanted <= self.listener.message_ids(), _HEAR_SECONDS)

    @contextmanager
    def kafka_away(self) -> Iterator[None]:
        """Kafka is killed for the block; the embedded one, which would forget all, is cut off."""
        with ExitStack() as back:
            if self.kind == APACHE:
                self.kafka.kill()
                back.callback(self.kafka.start)
            else:
                self.to_kafka.cut()
                back.callback(self.to_kafka.mend)
            yield

    def undo(self) -> None:
        """Undo what had to outlast the judgement."""
        for undo in self.afterwards:
            undo()
        self.afterwards.clear()

    def mend(self) -> list[str]:
        """Bring back what a fault has left behind or dead; its names."""
        self.undo()
        servers = [one for one in (self.postgres, self.valkey, self.kafka) if not one.running]
        for server in servers:
            server.start()
        dead = self.product.dead()
        self.product.start(*dead)
        return [*(server.name for server in servers), *dead]
