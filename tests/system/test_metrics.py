"""What the metrics endpoint sums up: right in prefork with recycled children (section 8)."""

import urllib.request

import pytest

from dev.servers.port import free_port
from tests.neighbour import wait_until
from tests.system.celery_process import tick
from tests.system.conftest import Start
from tests.world import World

TASK = "calendar.appointment_timeout"
CYCLES = 30


def scrape(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    series = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in series}


EXPECTED_AT_START = {
    "calendar_appointment_timeout_cycle_duration_seconds_count": 0,
    'calendar_appointment_timeout_items_total{slot_outcome="released"}': 0,
    'calendar_appointment_timeout_items_total{slot_outcome="expired"}': 0,
    "calendar_appointment_timeout_skip_locked_total": 0,
    "calendar_appointment_timeout_errors_total": 0,
    "calendar_appointment_timeout_ticks_skipped_total": 0,
    "calendar_outbox_published_total": 0,
    "calendar_outbox_refused_total": 0,
}


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_every_series_exists_as_zero_from_the_start_and_counts_are_exact(
    world: World, start: Start, environment: dict[str, str], pool: str
) -> None:
    port = free_port()
    recycled = ("-c", "4", "--max-tasks-per-child", "5") if pool == "prefork" else ()
    start("worker", "--pool", pool, *recycled, METRICS_PORT=str(port))
    at_start = scrape(port)
    assert {name: at_start.get(name) for name in EXPECTED_AT_START} == EXPECTED_AT_START
    for _ in range(7):
        world.appointment(slot_status="Available")
    world.appointment()
    for done in range(1, CYCLES + 1):
        tick(TASK, environment)
        wait_until(lambda done=done: finished(world) == done, "the next cycle")  # type: ignore[misc]
        if done == 1:
            world.execute("DELETE FROM calendar.appointments WHERE status = 'Pending'")
    wait_until(lambda: scrape(port)["calendar_outbox_published_total"] == 2, "both messages")
    counted = scrape(port)
    assert counted["calendar_appointment_timeout_cycle_duration_seconds_count"] == CYCLES
    assert counted["calendar_appointment_timeout_errors_total"] == 7
    assert counted['calendar_appointment_timeout_items_total{slot_outcome="released"}'] == 1
    assert counted["calendar_appointment_timeout_last_success_timestamp_seconds"] > 0


def finished(world: World) -> int:
    return int(
        world.one(
            """SELECT count(*) AS n FROM calendar.job_runs
            WHERE job = 'appointment_timeout' AND finished_at IS NOT NULL"""
        )["n"]
    )
