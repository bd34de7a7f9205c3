"""The suite on processes of this machine: pytest-celery's nodes and setup, and no Docker at all."""

from collections.abc import Iterator

import pytest
from celery import Celery
from pytest_celery import CeleryTestWorker, RedisTestBroker

from app.domain.outbox import TOPICS
from dev.servers.consumer import read_topics
from dev.servers.valkey import Valkey
from tests.system.conftest import Start
from tests.system.nodes.cases import (
    Relayed,
    test_a_broker_that_restarts_empty_costs_no_appointment,
    test_a_drain_relays_what_waits_in_the_outbox,
    test_a_tick_expires_an_appointment,
    test_a_warm_shutdown_ends_with_the_item_in_hand,
)
from tests.system.nodes.processes import BrokerProcess, WorkerProcess

__all__ = [
    "test_a_broker_that_restarts_empty_costs_no_appointment",
    "test_a_drain_relays_what_waits_in_the_outbox",
    "test_a_tick_expires_an_appointment",
    "test_a_warm_shutdown_ends_with_the_item_in_hand",
]


@pytest.fixture
def celery_broker(valkey: Valkey) -> RedisTestBroker:
    """In the place of pytest-celery's, of which each is a container."""
    return RedisTestBroker(BrokerProcess(valkey))


@pytest.fixture
def celery_backend_cluster() -> None:
    """Redis is the broker and nothing else."""


@pytest.fixture
def celery_worker(
    start: Start, celery_broker: RedisTestBroker, celery_setup_app: Celery
) -> Iterator[CeleryTestWorker]:
    """One worker with our settings."""
    worker = WorkerProcess(lambda: start("worker", "--without-mingle"))
    yield CeleryTestWorker(worker, app=celery_setup_app)
    celery_setup_app.close()


@pytest.fixture
def relayed(environment: dict[str, str]) -> Relayed:
    """What lies in the two topics."""

    def read(expected: int) -> set[str]:
        bootstrap = environment["KAFKA_BOOTSTRAP_SERVERS"]
        return {m.key for m in read_topics(bootstrap, TOPICS, expected=expected, timeout=60)}

    return read
