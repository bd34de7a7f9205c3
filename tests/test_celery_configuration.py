"""What Celery is told: by `celeryconfig.py`, and by the tasks themselves for any app (S1, S5)."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

CELERY = Path(sys.executable).parent / "celery"
PROTECTED = {
    "ignore_result": True,
    "acks_late": False,
    "reject_on_worker_lost": False,
    "serializer": "json",
    "typing": True,
}
TASKS = {
    "calendar.appointment_timeout": ("calendar.appointment_timeout", 60.0),
    "calendar.outbox_publisher": ("calendar.outbox_publisher", 10.0),
    "calendar.retention": ("calendar.outbox_publisher", 3600.0),
}


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Celery:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:1/0")
    from tasks import celery  # noqa: PLC0415 - reads the environment when first used

    celery.loader.import_default_modules()
    return celery


@pytest.mark.parametrize("name", TASKS)
def test_each_task_has_its_queue_and_its_schedule_with_expiry(ours: Celery, name: str) -> None:
    queue, seconds = TASKS[name]
    assert ours.conf.task_routes[name] == {"queue": queue}
    [entry] = [e for e in ours.conf.beat_schedule.values() if e["task"] == name]
    assert entry["schedule"].seconds == seconds
    assert entry["options"]["expires"] == pytest.approx(seconds * 55 / 60)


def test_a_step_of_the_wall_clock_neither_silences_the_beat_nor_hurries_it(
    ours: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schedule asks the monotonic clock alone: whatever the wall says, 60 s are 60 s."""
    settings: Any = ours.conf
    entry = settings.beat_schedule["appointment-timeout"]
    before = entry["schedule"].now()
    elapsed = time.monotonic()
    due = {}
    for later in (59, 61):
        monkeypatch.setattr(time, "monotonic", lambda later=later: elapsed + later)
        due[later] = entry["schedule"].is_due(before).is_due
    assert due == {59: False, 61: True}


def test_redis_is_the_broker_and_nothing_else(ours: Celery) -> None:
    settings: Any = ours.conf
    assert settings.result_backend is None
    assert settings.task_ignore_result is True
    assert settings.accept_content == ["json"]
    assert settings.worker_send_task_events is True


@pytest.mark.parametrize("name", TASKS)
def test_what_protects_correctness_stands_on_the_task_in_a_foreign_app_too(name: str) -> None:
    """A foreign app with the opposite defaults cannot undo it."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            f"""
from celery import Celery, current_app
foreign = Celery("foreign", broker="memory://", include=[
    "tasks.appointment_timeout", "tasks.outbox_publisher", "tasks.retention"])
foreign.conf.update(task_acks_late=True, task_reject_on_worker_lost=True,
                    task_ignore_result=False, task_serializer="pickle")
foreign.loader.import_default_modules()
task = foreign.tasks[{name!r}]
print({{k: getattr(task, k) for k in {list(PROTECTED)!r}}} == {PROTECTED!r})
print(current_app.main)
import logging; print(logging.getLogger().handlers)
""",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={k: v for k, v in os.environ.items() if k != "CELERY_BROKER_URL"},
    ).stdout.splitlines()
    assert told == ["True", "foreign", "[]"]


@pytest.mark.parametrize(
    ("command", "variables", "sentence"),
    [
        ("worker", {}, "CELERY_BROKER_URL is not set."),
        ("beat", {}, "CELERY_BROKER_URL is not set."),
        ("worker", {"CELERY_BROKER_URL": "redis://127.0.0.1:1/0"}, "DATABASE_URL is not set."),
        (
            "worker",
            {
                "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
                "DATABASE_URL": "postgresql://127.0.0.1:1/x",
                "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
                "KAFKA_ACKS": "1",
            },
            "KAFKA_ACKS is refused: the outbox relies on acks=all.",
        ),
        (
            "beat",
            {
                "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
                "APPOINTMENT_TIMEOUT_INTERVAL_SECONDS": "soon",
            },
            "APPOINTMENT_TIMEOUT_INTERVAL_SECONDS is wrong",
        ),
    ],
)
def test_wrong_settings_stop_the_start_with_one_sentence(
    command: str, variables: dict[str, str], sentence: str
) -> None:
    done = subprocess.run(
        [CELERY, "-A", "tasks", command],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in {1, 2}
    assert done.stderr.splitlines()[-1].startswith(sentence)  # Celery warns of root before
    assert "Traceback" not in done.stderr
