"""A collector that is away or hangs costs its spans and nothing else (section 8, S5)."""

import signal

import pytest

from tests.neighbour import wait_until
from tests.system.celery_process import tick
from tests.system.collector import Collector
from tests.system.conftest import Start, published
from tests.world import World

TASK = "calendar.appointment_timeout"


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_s5_a_collector_that_never_answers_delays_neither_an_item_nor_the_stop(
    world: World, start: Start, environment: dict[str, str], collecting: Collector, pool: str
) -> None:
    """Its time-out is an hour, and the queue of spans takes two; whoever waited would be seen."""
    collecting.silent.set()
    worker = start(
        "worker",
        "--pool",
        pool,
        OTEL_EXPORTER_OTLP_ENDPOINT=collecting.url,
        OTEL_EXPORTER_OTLP_TIMEOUT="3600",
        OTEL_BSP_SCHEDULE_DELAY="50",
        OTEL_BSP_MAX_QUEUE_SIZE="2",
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1",
    )
    for count in (1, 2):
        for _ in range(10):
            world.appointment()
        tick(TASK, environment)
        wait_until(lambda count=count: published(world) == 20 * count, "all messages")  # type: ignore[misc]
        wait_until(collecting.asked.is_set, "the collector's being asked")
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0


def test_a_collector_that_is_away_is_told_once_per_batch_and_costs_nothing(
    world: World, start: Start, environment: dict[str, str]
) -> None:
    worker = start(
        "worker", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", OTEL_EXPORTER_OTLP_TIMEOUT="1"
    )
    world.appointment()
    tick(TASK, environment)
    wait_until(lambda: published(world) == 2, "both messages")
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit() == 0
    assert "Failed to export spans batch" in worker.text
    assert "Transient error" not in worker.text
    assert "Traceback" not in worker.text
