"""The suite in containers, vendor style: our image beside PostgreSQL, Redis and Kafka.

It needs a Docker engine and is skipped where none answers, in CI too: the one such suite.
Images and Kafka's settings are those of docker-compose.yml.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml
from docker.errors import DockerException
from pytest_celery import (
    CeleryBrokerCluster,
    CeleryTestWorker,
    CeleryWorkerContainer,
    RedisTestBroker,
)
from pytest_docker_tools import build, container, fetch, fxtr
from pytest_docker_tools.wrappers import Container
from sqlalchemy import Engine, make_url

from app import database, migrations
from app.domain.outbox import TOPICS
from tests.neighbour import wait_until
from tests.system.nodes.cases import (
    Relayed,
    test_a_broker_that_restarts_empty_costs_no_appointment,
    test_a_drain_relays_what_waits_in_the_outbox,
    test_a_tick_expires_an_appointment,
    test_a_warm_shutdown_ends_with_the_item_in_hand,
)

__all__ = [
    "test_a_broker_that_restarts_empty_costs_no_appointment",
    "test_a_drain_relays_what_waits_in_the_outbox",
    "test_a_tick_expires_an_appointment",
    "test_a_warm_shutdown_ends_with_the_item_in_hand",
]
ROOT = Path(__file__).parents[3]
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
POSTGRES, KAFKA = (f"calendar-{name}-{os.getpid()}" for name in ("postgres", "kafka"))
"""Their names in the containers' network; one of each at a time."""
SCRIPTS = "/opt/kafka/bin"


@pytest.fixture(scope="session")
def docker_client() -> docker.DockerClient:
    """The engine; every fixture of a container asks for it first."""
    try:
        client = docker.from_env()
        client.ping()
    except DockerException:
        pytest.skip("the suite in containers: no Docker engine answers here")
    return client


class CalendarWorker(CeleryWorkerContainer):  # type: ignore[misc]
    """The image's own command, under a name of its own."""

    @classmethod
    def command(cls, *args: str, **_debugger: Any) -> list[str]:
        """As docker-compose.yml has it."""
        return ["celery", "-q", "-A", "tasks", "worker", "-n", "worker@%h", *args]


calendar_image = build(path=str(ROOT), tag="appointment-timeout:test")
postgres_image = fetch(repository=SERVICES["postgres"]["image"])
kafka_image = fetch(repository=SERVICES["kafka"]["image"])

postgres_container = container(
    image="{postgres_image.id}",
    name=POSTGRES,
    environment={"POSTGRES_USER": "calendar", "POSTGRES_HOST_AUTH_METHOD": "trust"},
    ports={"5432/tcp": None},
    network="{default_pytest_celery_network.name}",
    timeout=60,
)
kafka_container = container(
    image="{kafka_image.id}",
    name=KAFKA,
    environment={
        **SERVICES["kafka"]["environment"],
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{KAFKA}:9092",
    },
    network="{default_pytest_celery_network.name}",
)
calendar_container = container(
    image="{calendar_image.id}",
    environment=fxtr("calendar_environment"),
    network="{default_pytest_celery_network.name}",
    read_only=True,
    tmpfs={"/tmp": ""},  # noqa: S108 - in the container
    wrapper_class=CalendarWorker,
    command=CalendarWorker.command(),
    timeout=60,
)


@pytest.fixture
def default_redis_broker_image() -> str:
    """The one of docker-compose.yml."""
    return str(SERVICES["redis"]["image"])


@pytest.fixture
def celery_broker_cluster(celery_redis_broker: RedisTestBroker) -> CeleryBrokerCluster:
    """Redis, and no other broker."""
    return CeleryBrokerCluster(celery_redis_broker)


@pytest.fixture
def celery_backend_cluster() -> None:
    """Redis is the broker and nothing else."""


@pytest.fixture
def engine(postgres_container: Container) -> Iterator[Engine]:
    """The worker's database, migrated, as this machine reaches it."""
    host, port = postgres_container.get_addr("5432/tcp")
    url = make_url(f"postgresql+psycopg2://calendar@{host}:{port}/calendar")
    made = database.engine(url, 12)
    migrations.apply(made)
    yield made
    made.dispose()


@pytest.fixture
def topics(kafka_container: Container) -> None:
    """Both, once Kafka is up: the publisher makes none."""
    for topic in TOPICS:
        make = f"{SCRIPTS}/kafka-topics.sh --bootstrap-server localhost:9092 --create --topic"
        wait_until(
            lambda command=f"{make} {topic} --if-not-exists": (  # type: ignore[misc]
                kafka_container.exec_run(command)[0] == 0
            ),
            f"the topic {topic}",
            seconds=120,
        )


@pytest.fixture
def calendar_environment(
    engine: Engine, topics: None, celery_worker_cluster_config: dict[str, Any]
) -> dict[str, str]:
    """What the worker is told, by the names in the containers' network."""
    [broker] = celery_worker_cluster_config["celery_broker_cluster_config"]["urls"]
    return {
        "DATABASE_URL": f"postgresql://calendar@{POSTGRES}/calendar",
        "CELERY_BROKER_URL": broker,
        "KAFKA_BOOTSTRAP_SERVERS": f"{KAFKA}:9092",
    }


@pytest.fixture
def celery_worker(calendar_container: CalendarWorker, celery_setup_app: Any) -> CeleryTestWorker:
    """Our image's worker."""
    return CeleryTestWorker(calendar_container, app=celery_setup_app)


@pytest.fixture
def relayed(kafka_container: Container) -> Relayed:
    """What lies in the two topics, by Kafka's own consumer: one message of each."""

    def read(expected: int) -> set[str]:
        per_topic, rest = divmod(expected, len(TOPICS))
        assert rest == 0
        consume = (
            f"{SCRIPTS}/kafka-console-consumer.sh --bootstrap-server localhost:9092"
            f" --from-beginning --max-messages {per_topic} --timeout-ms 60000"
            " --property print.key=true --topic"
        )
        lines = b"".join(kafka_container.exec_run(f"{consume} {topic}")[1] for topic in TOPICS)
        keyed = [line.split("\t") for line in lines.decode().splitlines() if "\t" in line]
        return {key for key, _payload in keyed}

    return read
