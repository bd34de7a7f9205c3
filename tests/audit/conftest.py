"""A lawful world for every test of the audit: filled once, copied for each."""

from collections.abc import Iterator

import pytest

from dev.servers.postgres import Postgres
from tests.audit.lawful import LawfulWorld
from tests.conftest import TEMPLATE, engine_for

LAWFUL = "lawful_template"


@pytest.fixture(scope="session")
def filled(postgres: Postgres) -> LawfulWorld:
    """The one to copy; nobody may be connected to it."""
    postgres.create_database(LAWFUL, template=TEMPLATE)
    engine = engine_for(postgres, LAWFUL)
    world = LawfulWorld(engine).fill()
    engine.dispose()
    return world


@pytest.fixture
def lawful(postgres: Postgres, filled: LawfulWorld) -> Iterator[LawfulWorld]:
    """Every operation has been at work in it."""
    name = f"{LAWFUL}_copy"
    postgres.create_database(name, template=LAWFUL)
    engine = engine_for(postgres, name)
    yield LawfulWorld(engine, filled.names)
    engine.dispose()
    postgres.drop_database(name)
