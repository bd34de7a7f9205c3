"""The whole way with real processes: a tick, a cascade, two messages, and who can see it."""

import json

import pytest

from app.domain.outbox import TOPICS
from dev.servers.consumer import read_topics
from tests.neighbour import wait_until
from tests.system.celery_process import app, call
from tests.system.conftest import Start
from tests.world import MINUTE, World

TASK = "calendar.appointment_timeout"


def finished(world: World, run_id: str) -> bool:
    return bool(
        world.all(
            "SELECT FROM calendar.job_runs WHERE run_id = :id AND finished_at IS NOT NULL",
            id=run_id,
        )
    )


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_a_manual_tick_expires_publishes_and_shows_its_five_figures(
    world: World, start: Start, environment: dict[str, str], pool: str
) -> None:
    """C6, O1: the publisher is woken by the cycle itself: no beat runs here."""
    made = [world.appointment(), world.appointment(starts_in=30 * MINUTE)]
    worker = start("worker", "--pool", pool)
    run_id = call(TASK, environment)
    wait_until(lambda: finished(world, run_id), "the cycle's record")
    shown = json.loads(app("runs", run_id, "--json", environment=environment).stdout)
    assert shown["outcome"] == "completed"
    assert shown["result"] == {
        "ExpiredCount": 2,
        "SlotsReleasedCount": 1,
        "SlotsExpiredCount": 1,
        "SkippedLockedCount": 0,
        "DurationMs": shown["result"]["DurationMs"],
    }
    messages = read_topics(environment["KAFKA_BOOTSTRAP_SERVERS"], TOPICS, expected=4, timeout=60)
    assert {m.key for m in messages} == {
        str(x) for one in made for x in (one.appointment, one.event)
    }
    wait_until(lambda: "'ExpiredCount': 2" in worker.text, "the figures in the worker's log")
    [completed] = worker.lines("cycle completed")
    assert (completed["runId"], completed["ExpiredCount"]) == (run_id, 2)


def test_unknown_arguments_are_refused_before_any_row_is_touched(
    world: World, start: Start, environment: dict[str, str]
) -> None:
    made = world.appointment()
    worker = start("worker")
    call(TASK, environment, "--kwargs", '{"tenant": 1}')
    wait_until(lambda: "unexpected keyword argument 'tenant'" in worker.text, "the refusal")
    assert world.status(made) == "Pending"
    assert world.all("SELECT FROM calendar.job_runs") == []


def test_the_beat_expires_an_appointment_with_the_first_tick_after_its_deadline(
    world: World, start: Start, environment: dict[str, str]
) -> None:
    """Accuracy SLO: by t + interval + the cycle's duration; the freed slot is visible at once."""
    start("worker", APPOINTMENT_TIMEOUT_INTERVAL_SECONDS="2")
    made = [world.appointment(expires_in=seconds * MINUTE / 60) for seconds in (1, 3, 5)]
    start("beat", APPOINTMENT_TIMEOUT_INTERVAL_SECONDS="2")
    for one in made:
        wait_until(lambda one=one: world.status(one) == "Expired", "the expiry")  # type: ignore[misc]
        assert world.state(one)["slot"][0]["status"] == "Available"
    late = world.all(
        """SELECT a.id FROM calendar.appointments a, calendar.job_runs r
        WHERE r.outcome = 'completed' AND r.job = 'appointment_timeout'
          AND a.pending_expires_at < r.as_of AND r.as_of < a.updated_at"""
    )
    assert late == [], "a completed cycle had passed an overdue appointment by"


def test_flower_shows_the_tasks_with_their_figures(
    world: World, start: Start, environment: dict[str, str]
) -> None:
    import urllib.request  # noqa: PLC0415

    from dev.servers.port import free_port  # noqa: PLC0415

    port = free_port()
    start("flower", f"--port={port}", "--address=127.0.0.1", FLOWER_UNAUTHENTICATED_API="1")
    start("worker")
    world.appointment()
    run_id = call(TASK, environment)

    def shown() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/tasks") as answer:
            task = json.load(answer).get(run_id, {})
        return task.get("state") == "SUCCESS" and "'ExpiredCount': 1" in str(task["result"])

    wait_until(shown, "the finished task in Flower")
