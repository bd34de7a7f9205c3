"""Our tasks in a foreign app, by the code of docs/foreign-app.md."""

import re
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from dev.servers.port import free_port
from dev.servers.valkey import Valkey
from tests.neighbour import wait_until
from tests.system.conftest import published
from tests.system.foreign.crm import OUR_QUEUES, PAGE, Crm, included
from tests.system.hold import Hold
from tests.world import MINUTE, World

DEDICATED = ("-n", "calendar@%h", "-c", "2", "--prefetch-multiplier", "1", "-Q", OUR_QUEUES)
SHARED = ("-n", "all@%h", "-c", "2", "-Q", f"celery,mail,{OUR_QUEUES}")


def outcomes(world: World) -> set[str]:
    rows = world.all("SELECT outcome FROM calendar.job_runs WHERE job = 'appointment_timeout'")
    return {row["outcome"] for row in rows}


@pytest.fixture
def guarded(tmp_path: Path, valkey: Valkey) -> Iterator[Crm]:
    """With the line that the page advises for a Redis that others write to."""
    [line] = re.findall(r'`(broker_transport = "[^`]+)`', PAGE.read_text())
    with closing(Crm(tmp_path / "guarded", valkey.url, included(), f"app.conf.{line}")) as made:
        yield made


def test_one_worker_serves_both_by_the_foreign_beat_and_stops_between_items(
    world: World, crm_with_ours: Crm, our_environment: dict[str, str]
) -> None:
    """S1, S5, and its log stays as Celery makes it: not one line of ours in JSON."""
    crm = crm_with_ours
    worker = crm.start("worker", *SHARED, environment=our_environment)
    crm.start("beat", "-s", str(crm.place / "beat"), environment=our_environment)
    made = [world.appointment() for _ in range(3)]
    crm.send("crm.mail", 1)
    wait_until(lambda: {world.status(one) for one in made} == {"Expired"}, "the expiry")
    wait_until(lambda: published(world) == 6, "the messages")
    wait_until(lambda: crm.diary() == ["mail 1"], "their task")
    hold = Hold(world)
    made = [world.appointment() for _ in range(9)]
    hold.wait_reached()
    wait_until(lambda: "skipped" in outcomes(world), "a tick during the cycle, skipped")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: "Warm shutdown" in worker.text, "the warm shutdown")
    hold.release()
    assert worker.wait_exit() == 0
    assert "stopped" in outcomes(world)
    assert "Pending" in {world.status(one) for one in made}
    assert not [line for line in worker.text.splitlines() if line.startswith("{")]
    assert "'event': 'cycle started'" in worker.text


def test_d_a_worker_for_our_queues_is_punctual_whatever_their_tasks_take(
    world: World, crm_with_ours: Crm, our_environment: dict[str, str]
) -> None:
    """Accuracy SLO, while all their children are held and eight more tasks are prefetched."""
    crm, port = crm_with_ours, free_port()
    theirs = crm.start("worker", "-c", "2", "-Q", "celery")  # it knows no variable of ours
    for number in range(10):
        crm.send("crm.import", number)
    wait_until(lambda: len(crm.diary()) == 2, "two long tasks")
    ours = {**our_environment, "METRICS_PORT": str(port)}
    crm.start("worker", *DEDICATED, environment=ours)
    crm.start("beat", "-s", str(crm.place / "beat"), environment=our_environment)
    for soon in (1, 3):
        made = world.appointment(expires_in=soon * MINUTE / 60)
        wait_until(lambda one=made: world.status(one) == "Expired", "the expiry")  # type: ignore[misc]
    late = world.all(
        """SELECT a.id FROM calendar.appointments a, calendar.job_runs r
        WHERE r.outcome = 'completed' AND r.job = 'appointment_timeout'
          AND a.pending_expires_at < r.as_of AND r.as_of < a.updated_at"""
    )
    assert late == []
    assert sorted(crm.diary()) == ["import 0 begins", "import 1 begins"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert 'cycles_total{outcome="completed"}' in answer.read().decode()
    crm.release()
    wait_until(lambda: len(crm.diary()) == 20, "their tasks, each of them once")
    assert "is not set" not in theirs.text  # in no process of theirs


def test_d_one_worker_for_all_lets_a_tick_wait_for_their_long_tasks(
    world: World, valkey: Valkey, our_environment: dict[str, str], guarded: Crm
) -> None:
    """The price that the page names: it has taken the tick, so no other worker can.

    With our transport, as the page advises, it survives what anybody may push onto its queue.
    """
    crm, waiting = guarded, Redis.from_url(valkey.url)
    waiting.lpush("celery", "no JSON")
    crm.start("worker", *SHARED, environment=our_environment)
    for number in range(2):
        crm.send("crm.import", number)
    wait_until(lambda: len(crm.diary()) == 2, "two long tasks")
    made = world.appointment()
    queue = "calendar.appointment_timeout"
    crm.sender.send_task(queue, queue=queue)
    wait_until(lambda: waiting.llen(queue) == 0, "the tick is taken")
    assert world.all("SELECT FROM calendar.job_runs") == []
    crm.release()
    wait_until(lambda: world.status(made) == "Expired", "the cycle")


def test_a_wrong_setting_of_ours_ends_our_worker_and_no_other(
    crm_with_ours: Crm, our_environment: dict[str, str]
) -> None:
    """A worker that does other work too tells the sentence and goes on with that."""
    crm, wrong = crm_with_ours, {**our_environment, "OUTBOX_RETENTION_DAYS": "week"}
    shared = crm.start("worker", *SHARED, environment=wrong)
    assert "OUTBOX_RETENTION_DAYS is wrong" in shared.text
    crm.send("crm.mail", 1)
    wait_until(lambda: crm.diary() == ["mail 1"], "their task")
    assert crm.refused(*DEDICATED, environment=wrong).startswith("OUTBOX_RETENTION_DAYS is wrong")
