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
    "retry_on_worker_lost": False,
    "store_errors_even_if_ignored": False,
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


HOSTILE = """
from celery import Celery, Task, current_app

class Theirs(Task):
    autoretry_for = (Exception,)
    retry_backoff = True

foreign = Celery("foreign", broker="memory://", task_cls=Theirs, include=list(timetable.MODULES))
foreign.conf.update(
    task_acks_late=True, task_reject_on_worker_lost=True, task_retry_on_worker_lost=True,
    task_ignore_result=False, task_store_errors_even_if_ignored=True, task_serializer="pickle",
    task_default_rate_limit="1/h", task_soft_time_limit=5, task_time_limit=10, strict_typing=False,
    task_annotations={"*": {"acks_late": True, "time_limit": 10, "rate_limit": "1/h",
                            "expires": 1, "theirs": True}},
)
foreign.loader.import_default_modules()
"""
"""A foreign app that undoes all it can."""


def told_by(code: str) -> list[str]:
    """What a process of such a foreign app prints, with none of our variables set."""
    beginning = "import kombu.transport, logging, os, prometheus_client, structlog"
    watched = """[kombu.transport.TRANSPORT_ALIASES.copy(), logging.getLogger().handlers[:],
        structlog.get_config(), prometheus_client.values.ValueClass, dict(os.environ)]"""
    lines = [beginning, f"before = {watched}", "from tasks import timetable", HOSTILE, code]
    return subprocess.run(
        [sys.executable, "-c", "\n".join([*lines, f"print(before == {watched})"])],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    ).stdout.splitlines()


@pytest.mark.parametrize("name", TASKS)
def test_what_protects_correctness_stands_on_the_task_in_a_foreign_app_too(name: str) -> None:
    """A foreign app with the opposite defaults cannot undo it; the process stays as it was."""
    seconds = TASKS[name][1]
    told = told_by(f"""
task = foreign.tasks[{name!r}]
print({{k: getattr(task, k) for k in {list(PROTECTED)!r}}} == {PROTECTED!r})
print(task.time_limit, task.soft_time_limit, task.expires, bool(task.rate_limit), task.theirs)
print(hasattr(task, "autoretry_for"), current_app.main)
""")
    fresh = seconds * 55 / 60
    assert told == ["True", f"90.0 90.0 {fresh} False True", "False foreign", "True"]


def test_a_wrong_variable_of_ours_ends_no_process_of_a_foreign_app() -> None:
    """It asks for our schedule wherever it is imported; workers and beat tell what is wrong."""
    told = told_by("""
from celery import signals
os.environ["APPOINTMENT_TIMEOUT_INTERVAL_SECONDS"] = "soon"
print([entry["schedule"].seconds for entry in timetable.beat_schedule().values()])
handler = logging.Handler()
handler.emit = lambda record: print(record.msg["detail"][:45])
logging.getLogger("calendar").addHandler(handler)
signals.beat_init.send(sender=None)
del os.environ["APPOINTMENT_TIMEOUT_INTERVAL_SECONDS"]
""")
    wrong = "APPOINTMENT_TIMEOUT_INTERVAL_SECONDS is wrong"
    assert told == ["[60.0, 10.0, 3600.0]", wrong, "True"]


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


def test_a_worker_imports_nothing_that_only_the_commands_need() -> None:
    """`ready` waits for imports alone: Celery's, SQLAlchemy's and the Kafka client's."""
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, tasks; tasks.celery.loader.import_default_modules(); print(*sys.modules)",
        ],
        env={**os.environ, "CELERY_BROKER_URL": "redis://127.0.0.1:1/0"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {"tasks.retention", "sqlalchemy.engine", "confluent_kafka"} <= set(loaded)
    for one in (
        "alembic",
        "typer",
        "flower",
        "sqlalchemy.orm",
        "app.doctor",
        "app.audit",
        "app.cli",
    ):
        assert one not in loaded
