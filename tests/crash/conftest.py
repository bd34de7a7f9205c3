"""Lanes on which points are struck side by side; most of a victim's life is waiting."""

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from app.domain.outbox import TOPICS
from dev.servers.postgres import Postgres
from tests.conftest import TEMPLATE, engine_for
from tests.crash.lane import Lane
from tests.crash.nursery import Nursery
from tests.publish.outbox_world import OutboxWorld

LANES = 3


@pytest.fixture(scope="session")
def all_lanes(postgres: Postgres) -> Iterator[list[Lane]]:
    """Databases and nurseries, once per test process."""
    with ExitStack() as stack:
        lanes = []
        for number in range(LANES):
            name = f"crash_{uuid4().hex[:12]}"
            postgres.create_database(name, template=TEMPLATE)
            stack.callback(postgres.drop_database, name)
            world = OutboxWorld(engine_for(postgres, name), TOPICS[0])
            stack.callback(world.engine.dispose)
            lanes.append(Lane(f"lane {number}", world, stack.enter_context(Nursery())))
        yield lanes


@pytest.fixture
def lanes(all_lanes: list[Lane]) -> Iterator[list[Lane]]:
    """The lanes, with nothing sent yet."""
    yield all_lanes
    for lane in all_lanes:
        lane.close()
