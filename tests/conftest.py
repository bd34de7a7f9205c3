"""Real servers for every test: one stack per test process, a database of its own per test."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg2
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import Engine, make_url

from app import database, migrations
from app.domain.outbox import TOPICS
from app.telemetry.spans import Spans
from dev.servers.kafka import Kafka
from dev.servers.postgres import Postgres
from dev.servers.valkey import Valkey
from tests.contracts.contract import shipped
from tests.shipped import install_in
from tests.world import World

TEMPLATE = "calendar_template"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One PostgreSQL for the session, with a migrated template database."""
    with (
        tempfile.TemporaryDirectory(prefix="calendar-tests-") as directory,
        Postgres(Path(directory), durable=False) as server,
    ):
        server.create_database(TEMPLATE)
        engine = engine_for(server, TEMPLATE)
        migrations.apply(engine)
        engine.dispose()
        yield server


def engine_for(server: Postgres, name: str, connections: int = 12) -> Engine:
    """An engine with the product's own connection settings."""
    url = make_url(server.url(name)).set(drivername="postgresql+psycopg2")
    return database.engine(url, connections)


@pytest.fixture
def database_name(postgres: Postgres) -> Iterator[str]:
    """A migrated, empty database of the test's own; its messages are looked at in the end."""
    name = f"test_{uuid4().hex[:12]}"
    postgres.create_database(name, template=TEMPLATE)
    yield name
    try:
        every_message_fits(postgres.url(name))
    finally:
        postgres.drop_database(name)


def every_message_fits(database: str, schema: str = "calendar") -> None:
    """Whatever a test has made its product say, it says by the contract (section 6)."""
    with closing(psycopg2.connect(database)) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT topic, key, payload, headers || jsonb_build_object('message-id', message_id)
            FROM {schema}.outbox_messages WHERE topic = ANY(%s)""",
            [list(TOPICS)],
        )
        for topic, *message in cursor:
            shipped().messages[topic].validate(*message)


@pytest.fixture
def engine(postgres: Postgres, database_name: str) -> Iterator[Engine]:
    """The product's engine on the test's database."""
    made = engine_for(postgres, database_name)
    yield made
    made.dispose()


@pytest.fixture
def world(engine: Engine) -> World:
    """Appointments in every state, made and looked at in the test's words."""
    return World(engine)


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    """A broker of the test's own, its topics empty."""
    with (
        tempfile.TemporaryDirectory(prefix="calendar-kafka-") as directory,
        Kafka(Path(directory), topics=dict.fromkeys(TOPICS, 3)) as server,
    ):
        yield server


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    """A Redis-protocol server of the test's own, empty."""
    with (
        tempfile.TemporaryDirectory(prefix="calendar-valkey-") as directory,
        Valkey(Path(directory)) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs of the installed product are, with its runtime dependencies only."""
    return install_in(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def kept() -> InMemorySpanExporter:
    """The spans that ended, in this process."""
    return InMemorySpanExporter()


@pytest.fixture
def spans(kept: InMemorySpanExporter) -> Iterator[Spans]:
    """Traces in the on position."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    yield Spans(provider.get_tracer("calendar"))
    provider.shutdown()
