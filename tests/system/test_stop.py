"""Stop and restart by every signal and in every pool (S5): items whole, locks gone, in seconds."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable

import pytest

from tests.neighbour import wait_until
from tests.system.celery_process import CeleryProcess, tick
from tests.system.conftest import Start
from tests.system.hold import Hold
from tests.world import World

TASK = "calendar.appointment_timeout"
NAMESPACE = ("/usr/bin/unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
TWO_LANES = {"APPOINTMENT_TIMEOUT_CONNECTIONS": "2"}


def to_the_group(worker: CeleryProcess) -> None:
    """As systemd's default and a closing terminal do: every process gets it."""
    os.killpg(worker.process.pid, signal.SIGTERM)


SIGNALS: dict[str, Callable[[CeleryProcess], None]] = {
    "INT": lambda worker: worker.signal(signal.SIGINT),
    "QUIT": lambda worker: worker.signal(signal.SIGQUIT),
    "TERM to the group": to_the_group,
}


def whole(world: World) -> None:
    """Every appointment is expired with all its cascade and pair, or as it was; nobody holds it."""
    rows = world.all(
        """SELECT a.status AS appointment, s.status AS slot, e.status AS event,
            (SELECT count(*) FROM calendar.outbox_messages m
             WHERE m.payload ->> 'AppointmentId' = a.id::text) AS messages
        FROM calendar.appointments a
        JOIN calendar.availability_slots s ON s.id = a.slot_id
        JOIN calendar.calendar_events e ON e.id = a.calendar_event_id"""
    )
    states = {tuple(row.values()) for row in rows}
    assert states <= {
        ("Expired", "Available", "Cancelled", 2),
        ("Pending", "Booked", "Scheduled", 0),
    }
    world.execute("SELECT FROM calendar.appointments FOR UPDATE NOWAIT")
    world.execute("SELECT FROM calendar.availability_slots FOR UPDATE NOWAIT")


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_s5_whatever_the_signal_each_item_is_whole_and_no_lock_is_left(
    world: World, start: Start, environment: dict[str, str], pool: str, name: str
) -> None:
    made = [world.appointment() for _ in range(10)]
    hold = Hold(world)
    worker = start("worker", "--pool", pool, **TWO_LANES)
    tick(TASK, environment)
    hold.wait_reached(items=2)
    SIGNALS[name](worker)
    hold.release()
    worker.wait_exit()
    wait_until(lambda: hold.held() == 0, "the end of our backends")
    whole(world)
    start("worker", "--pool", pool)
    tick(TASK, environment)
    wait_until(lambda: {world.status(one) for one in made} == {"Expired"}, "the next tick")
    whole(world)


def test_s5_as_pid_1_of_a_container_term_ends_it_with_zero(
    world: World, start: Start, environment: dict[str, str]
) -> None:
    """In a PID namespace of its own; skipped where the kernel lets us have none."""
    can = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False)
    if can.returncode:
        pytest.skip("no PID namespace to be had here (needs root)")
    world.appointment()
    worker = start("worker", around=NAMESPACE)
    tick(TASK, environment)
    wait_until(lambda: worker.lines("cycle completed"), "the cycle")
    [pid_1] = worker.children()
    os.kill(pid_1, signal.SIGTERM)
    assert worker.wait_exit() == 0
    whole(world)


def test_a_rolling_restart_under_load_loses_nothing(
    world: World, start: Start, environment: dict[str, str]
) -> None:
    """Two workers, one after the other stopped and replaced, while appointments become overdue."""
    workers = [start("worker", "-n", f"{name}@%h") for name in "ab"]
    load = threading.Event()

    def book_and_tick() -> None:
        while not load.wait(0.05):
            world.appointment()
            tick(TASK, environment)

    loader = threading.Thread(target=book_and_tick)
    loader.start()
    try:
        for name, worker in zip("ab", workers, strict=True):
            worker.signal(signal.SIGTERM)
            assert worker.wait_exit() == 0
            start("worker", "-n", f"{name}2@%h")
    finally:
        load.set()
        loader.join()
    tick(TASK, environment)

    def settled() -> bool:
        return not world.all(
            "SELECT FROM calendar.appointments WHERE status = 'Pending'"
        ) and not world.all("SELECT FROM calendar.outbox_messages WHERE published_at IS NULL")

    wait_until(settled, "everything expired and published")
    whole(world)
    assert not world.failures()
    outcomes = {row["outcome"] for row in world.all("SELECT outcome FROM calendar.job_runs")}
    assert outcomes <= {"completed", "skipped", "stopped"}
