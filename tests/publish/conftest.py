"""An outbox to drain, and brokers to drain it to."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from app.kafka import Sender
from dev.servers.kafka import Kafka
from dev.servers.mock_kafka import MockKafka
from tests.publish.outbox_world import HASTY, QUICK, OutboxWorld, new_topic, sender_to

MOCKED = "mocked"
OTHER = "other"
PARTITIONS = 12


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    """The embedded broker, shared by a module: every test has a topic of its own there."""
    with (
        tempfile.TemporaryDirectory(prefix="calendar-kafka-") as directory,
        Kafka(Path(directory)) as server,
    ):
        yield server


@pytest.fixture
def outbox(engine: Engine, broker: Kafka) -> OutboxWorld:
    """An empty outbox whose messages go to an empty topic of the embedded broker."""
    return OutboxWorld(engine, new_topic(broker.bootstrap, PARTITIONS))


@pytest.fixture
def sender(broker: Kafka) -> Iterator[Sender]:
    """The product's sender to the embedded broker."""
    made = sender_to(broker.bootstrap)
    yield made
    made.close()


@pytest.fixture
def mock() -> Iterator[MockKafka]:
    """A broker that fails on demand, with two topics of one partition."""
    with MockKafka({MOCKED: 1, OTHER: 1}) as server:
        yield server


@pytest.fixture
def mocked(engine: Engine) -> OutboxWorld:
    """An empty outbox whose messages go to the first of them."""
    return OutboxWorld(engine, MOCKED)


@pytest.fixture
def quick(mock: MockKafka) -> Iterator[Sender]:
    """A sender to the failing broker, of a topic's absence soon convinced."""
    made = sender_to(mock.bootstrap, QUICK)
    yield made
    made.close()


@pytest.fixture
def hasty(mock: MockKafka) -> Iterator[Sender]:
    """A sender to the failing broker that gives up after 1.5 seconds, not after eight."""
    made = sender_to(mock.bootstrap, HASTY)
    yield made
    made.close()
