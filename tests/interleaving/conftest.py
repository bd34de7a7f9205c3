"""One stage for all schedules of a test process."""

from collections.abc import Iterator

import pytest

from dev.servers.postgres import Postgres
from tests.conftest import TEMPLATE
from tests.interleaving.stage import Stage, stage


@pytest.fixture(scope="session")
def the_stage(postgres: Postgres) -> Iterator[Stage]:
    """A database with three actors."""
    with stage(postgres, TEMPLATE) as made:
        yield made
