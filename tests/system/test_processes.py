"""Overlap, death, stop and forks of real worker processes (S1, S5, C5)."""

import os
import signal
import subprocess

import pytest

from app.domain.outbox import TOPICS
from dev.servers.consumer import read_topics
from dev.servers.port import free_port
from dev.servers.valkey import Valkey
from tests.neighbour import wait_until
from tests.system.celery_process import CELERY, CeleryProcess, tick
from tests.system.conftest import Start
from tests.system.hold import Hold
from tests.world import World

TASK = "calendar.appointment_timeout"
PATIENT = "?options=-c%20statement_timeout%3D60s"
POOLS = ["prefork", "threads", "solo"]


def outcomes(world: World) -> list[str | None]:
    rows = world.all("SELECT outcome FROM calendar.job_runs WHERE job = 'appointment_timeout'")
    return sorted((row["outcome"] for row in rows), key=str)


def nothing_locked(world: World) -> None:
    world.execute("SELECT FROM calendar.appointments FOR UPDATE NOWAIT")
    world.execute("SELECT FROM calendar.availability_slots FOR UPDATE NOWAIT")


@pytest.fixture
def patient(environment: dict[str, str]) -> str:
    """The test's database, for items that are held for longer than our statement timeout."""
    return environment["DATABASE_URL"] + PATIENT


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_s1_ticks_during_a_cycle_are_skipped_at_once_and_told(
    world: World, start: Start, environment: dict[str, str], patient: str, pool: str
) -> None:
    world.appointment()
    hold = Hold(world)
    worker = start("worker", "--pool", pool, "-c", "4", DATABASE_URL=patient)
    tick(TASK, environment)
    hold.wait_reached()
    skipped = [tick(TASK, environment) for _ in range(3)]
    wait_until(lambda: outcomes(world) == [None, *["skipped"] * 3], "three skipped ticks")
    assert hold.held() == 1
    hold.release()
    wait_until(lambda: outcomes(world).count("completed") == 1, "the cycle's end")
    told = worker.lines("tick skipped")
    assert sorted(line["runId"] for line in told) == sorted(skipped)
    kept = world.all("SELECT result, detail FROM calendar.job_runs WHERE outcome = 'skipped'")
    assert all(set(row["result"].values()) == {0} for row in kept)
    assert all("still at work" in row["detail"] for row in kept)


def test_s1_two_workers_of_one_host_do_not_skip_each_others_ticks(
    world: World, start: Start, environment: dict[str, str], patient: str
) -> None:
    for _ in range(2):
        world.appointment()
    hold = Hold(world)
    one_lane = {"DATABASE_URL": patient, "APPOINTMENT_TIMEOUT_CONNECTIONS": "1"}
    for name in ("a@%h", "b@%h"):
        start("worker", "--pool", "solo", "-n", name, **one_lane)
    for _ in range(2):
        tick(TASK, environment)
    hold.wait_reached(items=2)
    hold.release()
    wait_until(lambda: outcomes(world) == ["completed"] * 2, "both cycles")


def test_s1_the_guard_dies_with_its_process(
    world: World, start: Start, environment: dict[str, str], patient: str
) -> None:
    """Guard lifetime: kill -9 of the child in mid-item; the very next tick works."""
    made = world.appointment()
    before = world.state(made)
    hold = Hold(world)
    worker = start("worker", "-c", "2", DATABASE_URL=patient)
    tick(TASK, environment)
    hold.wait_reached()
    kill_the_children(worker)
    wait_until(lambda: hold.held() == 0, "the end of the dead child's backend")
    assert world.state(made) == before
    nothing_locked(world)
    hold.release()
    tick(TASK, environment)
    wait_until(lambda: world.status(made) == "Expired", "the next tick")
    assert len(world.messages(made)) == 2


def kill_the_children(worker: CeleryProcess) -> None:
    """All children: one of them holds the item, the other one waits for work."""
    for pid in worker.children():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("pool", POOLS)
def test_s5_term_finishes_the_item_in_hand_and_ends_with_zero(
    world: World, start: Start, environment: dict[str, str], patient: str, pool: str
) -> None:
    """Shutdown: the item in hand whole, no further one, locks gone; the next tick goes on."""
    made = [world.appointment() for _ in range(10)]
    hold = Hold(world)
    variables = {"DATABASE_URL": patient, "APPOINTMENT_TIMEOUT_CONNECTIONS": "2"}
    worker = start("worker", "--pool", pool, **variables)
    tick(TASK, environment)
    hold.wait_reached(items=2)
    worker.signal(signal.SIGTERM)
    wait_until(lambda: "Warm shutdown" in worker.text, "the warm shutdown")
    hold.release()
    assert worker.wait_exit() == 0
    statuses = [world.status(one) for one in made]
    assert (statuses.count("Expired"), statuses.count("Pending")) == (2, 8)
    assert outcomes(world) == ["stopped"]
    nothing_locked(world)
    start("worker", "--pool", pool)
    tick(TASK, environment)
    wait_until(lambda: outcomes(world) == ["completed", "stopped"], "the next cycle")
    assert {world.status(one) for one in made} == {"Expired"}


def test_s5_kill_of_the_whole_node_leaves_the_item_whole_and_claimable(
    world: World, start: Start, environment: dict[str, str]
) -> None:
    made = world.appointment()
    before = world.state(made)
    hold = Hold(world)
    worker = start("worker", "-c", "2")
    tick(TASK, environment)
    hold.wait_reached()
    worker.process.kill()
    hold.release()
    wait_until(lambda: hold.held() == 0, "the end of the dead worker's backend")
    after = world.state(made)
    # Whole: the statement may have reached the server before the kill, its commit has not.
    assert after == before
    nothing_locked(world)


def test_s1_after_an_outage_of_the_workers_stale_ticks_are_discarded_unrun(
    world: World, start: Start, environment: dict[str, str]
) -> None:
    """Duplicate trigger: thirty stale ticks wait; only the fresh one runs."""
    for _ in range(30):
        tick(TASK, environment, expires=0.001)
    fresh = tick(TASK, environment)
    worker = start("worker")
    wait_until(lambda: outcomes(world) == ["completed"], "the fresh tick")
    wait_until(lambda: worker.text.count("Discarding revoked task") == 30, "the discards")
    [run] = world.all("SELECT run_id FROM calendar.job_runs WHERE job = 'appointment_timeout'")
    assert run["run_id"] == fresh


def test_fork_safety_with_recycled_children(
    world: World, start: Start, environment: dict[str, str]
) -> None:
    """Concurrency 4, five tasks per child, touched in the parent: 50 messages in, 50 out."""
    worker = start("worker", "-c", "4", "--max-tasks-per-child", "5")
    for _ in range(25):
        world.appointment()
        tick(TASK, environment)
    wait_until(
        lambda: (
            not world.all("SELECT FROM calendar.outbox_messages WHERE published_at IS NULL")
            and len(world.messages()) == 50
        ),
        "fifty published messages",
    )
    messages = read_topics(environment["KAFKA_BOOTSTRAP_SERVERS"], TOPICS, expected=50, timeout=60)
    ids = [dict(message.headers)["message-id"] for message in messages]
    assert len(set(ids)) == 50
    assert "Traceback" not in worker.text
    assert not worker.lines("cycle failed")


def test_the_broker_away_and_back_with_nothing_in_it(
    world: World, start: Start, valkey: Valkey, environment: dict[str, str]
) -> None:
    """Silent stall: Redis killed five times, restarted empty; ticks run again by themselves."""
    start("worker", APPOINTMENT_TIMEOUT_INTERVAL_SECONDS="1")
    start("beat", APPOINTMENT_TIMEOUT_INTERVAL_SECONDS="1")
    for _ in range(5):
        valkey.kill()
        valkey.start()
    made = world.appointment()
    wait_until(lambda: world.status(made) == "Expired", "ticks after the last restart")


def test_c5_a_database_away_at_the_start_is_told_in_one_line_of_the_log(start: Start) -> None:
    """It may come back: the worker starts, and every tick says so until it does."""
    away = f"postgresql://calendar@127.0.0.1:{free_port()}/calendar"
    worker = start("worker", "--pool", "solo", DATABASE_URL=away)
    [told] = worker.lines("database not reached at start")
    assert "DATABASE_URL" in told["detail"]


def test_a_wrong_setting_ends_the_start_in_one_sentence(environment: dict[str, str]) -> None:
    wrong = {**environment, "DATABASE_URL": "postgres://calendar@db/calendar"}
    done = subprocess.run(
        [CELERY, "-A", "tasks", "worker"], env=wrong, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("DATABASE_URL is wrong: it must begin with")
