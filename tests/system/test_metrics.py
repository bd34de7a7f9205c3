"""What the metrics endpoint tells: right in every pool, from the start (section 8)."""

import os
import signal
import urllib.request
from pathlib import Path

import pytest
from sqlalchemy import Engine

from app.store.brake import pull
from dev.servers.port import free_port
from dev.servers.postgres import Postgres
from tests.neighbour import wait_until
from tests.system.celery_process import tick
from tests.system.conftest import Start
from tests.system.hold import Hold
from tests.world import HOUR, MINUTE, World

TASK = "calendar.appointment_timeout"
CYCLES = 30
CYCLE = "calendar_appointment_timeout"


def scrape(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    series = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in series}


def zeros() -> set[str]:
    """What counts from 0; a histogram by its count."""
    outcomes = ["completed", "cut_short", "stopped", "failed", "skipped"]
    return {
        f"{CYCLE}_cycle_duration_seconds_count",
        *(f'{CYCLE}_cycles_total{{outcome="{one}"}}' for one in outcomes),
        *(f'{CYCLE}_items_total{{slot_outcome="{one}"}}' for one in ("released", "expired")),
        f"{CYCLE}_lag_seconds_count",
        f"{CYCLE}_skip_locked_total",
        f"{CYCLE}_errors_total",
        "calendar_outbox_drain_duration_seconds_count",
        *(f'calendar_outbox_drains_total{{outcome="{one}"}}' for one in outcomes),
        "calendar_outbox_published_total",
        "calendar_outbox_acknowledgement_seconds_count",
        "calendar_outbox_refused_total",
        f"{CYCLE}_backlog",
        f"{CYCLE}_oldest_overdue_seconds",
        f"{CYCLE}_poison_items",
        f"{CYCLE}_oldest_poison_seconds",
        f"{CYCLE}_brake_seconds",
        f"{CYCLE}_last_tick_timestamp_seconds",
        f"{CYCLE}_last_success_timestamp_seconds",
        "calendar_outbox_backlog",
        "calendar_outbox_oldest_unpublished_seconds",
        "calendar_outbox_set_aside",
    }


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_every_series_exists_as_zero_from_the_start_and_counts_are_exact(
    world: World, start: Start, environment: dict[str, str], pool: str
) -> None:
    port = free_port()
    recycled = ("-c", "4", "--max-tasks-per-child", "5") if pool == "prefork" else ()
    worker = start("worker", "--pool", pool, *recycled, METRICS_PORT=str(port))
    at_start = scrape(port)
    assert {name: at_start.get(name) for name in zeros()} == dict.fromkeys(zeros(), 0)
    assert at_start["calendar_database_up"] == 1
    for _ in range(7):
        world.appointment(slot_status="Available")
    world.appointment(expires_in=-10 * MINUTE)
    world.appointment(starts_in=MINUTE, expires_in=-10 * MINUTE)
    for done in range(1, CYCLES + 1):
        tick(TASK, environment)
        wait_until(lambda done=done: finished(world) == done, "the next cycle")  # type: ignore[misc]
        if done == 1:
            world.execute("DELETE FROM calendar.appointments WHERE status = 'Pending'")
        if done == CYCLES // 2 and pool == "prefork":
            os.kill(worker.children()[0], signal.SIGKILL)  # its figures stay, its place is filled
    wait_until(lambda: scrape(port)["calendar_outbox_published_total"] == 4, "the messages")
    counted = scrape(port)
    assert counted[f"{CYCLE}_cycle_duration_seconds_count"] == CYCLES
    assert counted[f'{CYCLE}_cycles_total{{outcome="completed"}}'] == CYCLES
    assert counted[f"{CYCLE}_errors_total"] == 7
    assert counted[f'{CYCLE}_items_total{{slot_outcome="released"}}'] == 1
    assert counted[f'{CYCLE}_items_total{{slot_outcome="expired"}}'] == 1
    assert counted[f"{CYCLE}_lag_seconds_count"] == 2
    assert 2 * 600 < counted[f"{CYCLE}_lag_seconds_sum"] < 2 * 900
    assert counted["calendar_outbox_acknowledgement_seconds_count"] == 4
    wait_until(lambda: scrape(port)[f"{CYCLE}_last_success_timestamp_seconds"] > 0, "a fresh look")


def test_what_the_cycles_leave_undone_is_told_by_every_instance_alike(
    world: World, start: Start, environment: dict[str, str], engine: Engine
) -> None:
    world.appointment(slot_status="Available", expires_in=-2 * HOUR)
    with engine.begin() as connection:
        pull(connection, "a bad import", "tests")
    world.execute(
        """INSERT INTO calendar.outbox_messages (message_id, topic, key, payload, created_at,
            attempts, last_error, set_aside_at)
        VALUES (gen_random_uuid(), 'one', 'a', '{}', now() - interval '1 hour', 0, NULL, NULL),
               (gen_random_uuid(), 'one', 'b', '{}', now() - interval '2 hours', 5, 'odd', now())"""
    )
    ports = [free_port(), free_port()]
    for number, port in enumerate(ports):
        start("worker", "-P", "solo", "-n", f"n{number}@%h", METRICS_PORT=str(port))
    with engine.connect() as neighbour:
        neighbour.exec_driver_sql("SELECT txid_current()")
        tick(TASK, environment)
        wait_until(lambda: finished(world) == 1, "a skipped tick")
        for port in ports:
            wait_until(
                lambda port=port: scrape(port)[f"{CYCLE}_last_tick_timestamp_seconds"],  # type: ignore[misc]
                "a fresh look",
            )
            told = scrape(port)
            assert told[f"{CYCLE}_backlog"] == 1
            assert 7200 <= told[f"{CYCLE}_oldest_overdue_seconds"] < 9000
            assert told[f"{CYCLE}_brake_seconds"] > 0
            assert told[f"{CYCLE}_last_success_timestamp_seconds"] == 0
            assert told["calendar_outbox_backlog"] == 2
            assert 3600 <= told["calendar_outbox_oldest_unpublished_seconds"] < 5400
            assert told["calendar_outbox_set_aside"] == 1
            assert told["calendar_database_oldest_transaction_seconds"] > 0


def test_the_state_is_absent_while_the_database_is_away_and_the_last_success_stays(
    world: World, start: Start, environment: dict[str, str], postgres: Postgres
) -> None:
    port = free_port()
    start("worker", "-P", "solo", METRICS_PORT=str(port))
    tick(TASK, environment)
    wait_until(lambda: scrape(port)[f"{CYCLE}_last_success_timestamp_seconds"], "a success")
    before = scrape(port)
    postgres.stop()
    try:
        wait_until(lambda: scrape(port)["calendar_database_up"] == 0, "the loss is told")
        away = scrape(port)
    finally:
        postgres.start()
    kept = f"{CYCLE}_last_success_timestamp_seconds"
    assert away[kept] == before[kept]
    assert f"{CYCLE}_backlog" not in away
    wait_until(lambda: scrape(port)["calendar_database_up"] == 1, "it is back")
    assert f"{CYCLE}_backlog" in scrape(port)


def test_ticks_and_drains_that_were_skipped_or_failed_are_told_apart(
    world: World, start: Start, environment: dict[str, str]
) -> None:
    port = free_port()
    world.appointment()
    hold = Hold(world)
    start("worker", "-c", "4", METRICS_PORT=str(port))
    tick(TASK, environment)
    hold.wait_reached()
    tick(TASK, environment)
    skipped = f'{CYCLE}_cycles_total{{outcome="skipped"}}'
    wait_until(lambda: scrape(port)[skipped] == 1, "the skipped tick")
    hold.release()
    wait_until(lambda: finished(world) == 2, "the cycle's end")
    world.execute("ALTER TABLE calendar.appointments RENAME TO hidden")
    try:
        tick(TASK, environment)
        failed = f'{CYCLE}_cycles_total{{outcome="failed"}}'
        wait_until(lambda: scrape(port)[failed] == 1, "the failed cycle")
    finally:
        world.execute("ALTER TABLE calendar.hidden RENAME TO appointments")
    assert scrape(port)[f"{CYCLE}_errors_total"] == 1


def finished(world: World) -> int:
    return int(
        world.one(
            """SELECT count(*) AS n FROM calendar.job_runs
            WHERE job = 'appointment_timeout' AND finished_at IS NOT NULL"""
        )["n"]
    )


def test_the_figures_of_dead_nodes_are_swept_up_and_of_no_other(
    start: Start, tmp_path: Path
) -> None:
    """Also where a node in another PID namespace shares the temporary directory."""
    place = {"TMPDIR": str(tmp_path), "METRICS_PORT": str(free_port())}
    dead = start("worker", "-P", "solo", "-n", "a", **place)
    directories = set(tmp_path.glob("calendar-metrics-*"))
    assert len(directories) == 1
    dead.signal(signal.SIGKILL)
    dead.wait_exit()
    for one in directories:
        os.utime(one, (0, 0))
    living = start("worker", "-P", "solo", "-n", "b", **place)
    (of_the_living,) = tmp_path.glob("calendar-metrics-*")
    assert of_the_living not in directories
    os.utime(of_the_living, (0, 0))
    start("worker", "-P", "solo", "-n", "c", **{**place, "METRICS_PORT": str(free_port())})
    assert of_the_living in set(tmp_path.glob("calendar-metrics-*"))
    assert living.process.running
