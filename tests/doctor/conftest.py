"""What the doctor examines: healthy servers, and no variable of the caller's."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from app import migrations, settings
from dev.servers.postgres import Postgres
from tests.conftest import TEMPLATE, engine_for
from tests.doctor.patient import Patient

MAX_CONNECTIONS = 40
"""So few that a test can take them all."""


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [name for name, _default, _meaning in settings.table()]
    for name in [*ours, *(name for name in os.environ if name.startswith("KAFKA_"))]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def durable() -> Iterator[Postgres]:
    """One PostgreSQL as it should be in production, with a migrated template database."""
    with tempfile.TemporaryDirectory(prefix="calendar-durable-") as directory:
        wanted = {"max_connections": str(MAX_CONNECTIONS), "max_prepared_transactions": "2"}
        server = Postgres(Path(directory), settings=wanted).start()
        home = server.data.home
        try:
            server.create_database(TEMPLATE)
            engine = engine_for(server, TEMPLATE)
            migrations.apply(engine)
            engine.dispose()
            yield server
        finally:
            server.close()
            shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def patient(durable: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patient]:
    """In perfect health, and `DATABASE_URL` leads there."""
    made = Patient(durable, f"test_{uuid4().hex[:12]}")
    durable.create_database(made.name, template=TEMPLATE)
    made.make_role()
    monkeypatch.setenv("DATABASE_URL", made.url)
    assert made.found() == []
    yield made
    made.sql("SET default_transaction_read_only = off", f"DROP OWNED BY {made.role}")
    durable.drop_database(made.name)
    Patient(durable, "postgres").sql(f"DROP ROLE {made.role}")
