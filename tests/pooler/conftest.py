"""The product behind a PgBouncer in transaction mode, as the role that the shipped file makes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url

from app import database
from dev.servers.pgbouncer import Pgbouncer
from dev.servers.postgres import Postgres
from tests import worker_role
from tests.programs import needed
from tests.world import World

ROLE = "pooled_worker"
SESSIONS = 1
"""Fewer than a cycle has connections: who held one and waited for another would never get it."""


@pytest.fixture
def pooler(postgres: Postgres, tmp_path: Path) -> Iterator[Pgbouncer]:
    """With `SESSIONS` for each role and database."""
    needed("pgbouncer", "pgbouncer")
    settings = {"default_pool_size": str(SESSIONS)}
    with Pgbouncer(tmp_path, postgres.port, users=[ROLE], settings=settings) as server:
        yield server


@pytest.fixture
def url(postgres: Postgres, database_name: str, world: World, pooler: Pgbouncer) -> str:
    """Through the pooler, as the workers' role."""
    worker_role.make(postgres, database_name, ROLE)
    world.execute(f"ALTER ROLE {ROLE} LOGIN")
    return pooler.through(postgres.url(database_name)).replace("postgres@", f"{ROLE}@")


@pytest.fixture
def pooled(url: str) -> Iterator[Engine]:
    """The product's engine as `DATABASE_POOL_MODE=transaction` has it."""
    address = make_url(url).set(drivername="postgresql+psycopg2")
    made = database.engine(address, 8, session=False)
    yield made
    made.dispose()
