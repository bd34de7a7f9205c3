"""S5: a PostgreSQL that hangs behind open connections is found out by each kind of worker."""

import signal
from collections.abc import Iterator

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from dev.servers.postgres import Postgres
from dev.servers.proxy import Proxy
from tests.neighbour import wait_until
from tests.system.celery_process import tick
from tests.system.conftest import Start
from tests.system.hold import Hold
from tests.world import World

TASK = "calendar.appointment_timeout"
LIMITS = "-c statement_timeout=3s -c idle_in_transaction_session_timeout=2s"


def nobody_holds(world: World) -> bool:
    try:
        world.execute("SELECT FROM calendar.appointments FOR UPDATE NOWAIT")
    except OperationalError:
        return False
    return True


@pytest.fixture
def proxy(postgres: Postgres) -> Iterator[Proxy]:
    """Between the worker and its PostgreSQL."""
    with Proxy(postgres.port) as between:
        yield between


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_s5_a_line_that_dies_in_mid_item_costs_a_cycle_and_no_stop_waits_for_it(
    world: World, start: Start, environment: dict[str, str], proxy: Proxy, pool: str
) -> None:
    made = [world.appointment() for _ in range(3)]
    url = make_url(environment["DATABASE_URL"]).set(port=proxy.port)
    url = url.update_query_dict({"options": LIMITS})
    hold = Hold(world)
    worker = start("worker", "--pool", pool, DATABASE_URL=url.render_as_string(hide_password=False))
    tick(TASK, environment)
    hold.wait_reached()
    proxy.freeze()
    hold.release()
    wait_until(lambda: worker.lines("cycle completed"), "the cycle's end")
    assert worker.lines("cycle completed")[0]["outcome"] == "failed"

    wait_until(lambda: nobody_holds(world), "PostgreSQL lets go of what the dead line held")
    tick(TASK, environment)
    wait_until(lambda: {world.status(one) for one in made} == {"Expired"}, "the next tick")

    world.appointment()
    hold.again()
    tick(TASK, environment)
    hold.wait_reached()
    proxy.freeze()
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
