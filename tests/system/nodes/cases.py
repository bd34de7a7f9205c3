"""The suite in pytest-celery's own terms: setup, worker node and broker node.

`test_on_processes` runs it on processes of this machine, `test_in_containers` on containers of our
image. Both give it `world`, the database that the worker is connected to, and `relayed`.
"""

from collections.abc import Callable

from pytest_celery import CeleryTestSetup

from tests.neighbour import wait_until
from tests.system.conftest import published
from tests.system.hold import Hold
from tests.world import World

CYCLE, DRAIN = "calendar.appointment_timeout", "calendar.outbox_publisher"
Relayed = Callable[[int], set[str]]
"""Read so many messages of the two topics; their keys."""


def tick(setup: CeleryTestSetup, task: str) -> None:
    """What beat sends."""
    setup.app.send_task(task, queue=task, ignore_result=True)


def test_a_tick_expires_an_appointment(celery_setup: CeleryTestSetup, world: World) -> None:
    """Cycle end to end (C3)."""
    made = world.appointment()
    tick(celery_setup, CYCLE)
    wait_until(lambda: world.status(made) == "Expired", "the cycle")
    celery_setup.worker.assert_log_exists("cycle completed")
    assert world.state(made)["slot"][0]["status"] == "Available"


def test_a_drain_relays_what_waits_in_the_outbox(
    celery_setup: CeleryTestSetup, world: World, relayed: Relayed
) -> None:
    """Drain end to end (O1, O2)."""
    made = world.appointment()
    world.run()
    tick(celery_setup, DRAIN)
    assert relayed(2) == {str(made.appointment), str(made.event)}
    wait_until(lambda: published(world) == 2, "what Kafka acknowledged is marked")


def test_a_warm_shutdown_ends_with_the_item_in_hand(
    celery_setup: CeleryTestSetup, world: World
) -> None:
    """S5: each item is whole, and none is left locked."""
    made = [world.appointment() for _ in range(20)]
    hold = Hold(world)
    tick(celery_setup, CYCLE)
    hold.wait_reached(items=4)  # one per connection
    worker = celery_setup.worker
    worker.kill("SIGTERM")
    worker.wait_for_log("Warm shutdown")
    hold.release()

    def ended() -> bool:
        worker.container.reload()
        return str(worker.container.status) == "exited"

    wait_until(ended, "the worker's end")
    statuses = [world.status(one) for one in made]
    assert (statuses.count("Expired"), statuses.count("Pending")) == (4, 16)
    world.execute("SELECT FROM calendar.appointments FOR UPDATE NOWAIT")


def test_a_broker_that_restarts_empty_costs_no_appointment(
    celery_setup: CeleryTestSetup, world: World
) -> None:
    """The worker finds it again by itself."""
    celery_setup.broker.restart()
    made = world.appointment()
    tick(celery_setup, CYCLE)
    wait_until(lambda: world.status(made) == "Expired", "the cycle after the restart")
