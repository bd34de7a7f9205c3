"""A worker of the product on the test's own servers."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.servers.kafka import Kafka
from dev.servers.postgres import Postgres
from dev.servers.valkey import Valkey
from tests.system.celery_process import CeleryProcess, celery
from tests.system.collector import Collector, collector
from tests.world import World

Start = Callable[..., CeleryProcess]


@pytest.fixture
def environment(
    postgres: Postgres, database_name: str, valkey: Valkey, kafka: Kafka
) -> dict[str, str]:
    """What a process of the product needs to run against the test's servers."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "DATABASE_URL": postgres.url(database_name),
        "CELERY_BROKER_URL": valkey.url,
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap,
    }


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start Celery processes that are gone when the test ends."""
    with ExitStack() as running:

        def started(
            command: str, *options: str, around: Sequence[str] = (), **variables: str
        ) -> CeleryProcess:
            return running.enter_context(
                celery(
                    command,
                    *options,
                    environment={**environment, **variables},
                    directory=tmp_path,
                    around=around,
                )
            )

        yield started


@pytest.fixture
def collecting() -> Iterator[Collector]:
    """A collector of the test's own."""
    with collector() as made:
        yield made


def published(world: World) -> int:
    """How many messages Kafka has acknowledged."""
    return len(world.all("SELECT FROM calendar.outbox_messages WHERE published_at IS NOT NULL"))
