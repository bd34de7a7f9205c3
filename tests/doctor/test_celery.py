"""Celery's settings as a deployment has edited them: an edited copy of our own is examined."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from app.doctor import examine
from app.doctor.celery import judged
from app.doctor.complaint import Complaint, NotExamined

CONFIG = Path(__file__).parents[2] / "celeryconfig.py"


def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *edits: str) -> list[Complaint]:
    """What is said of our settings, with these lines added to them."""
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://h/0")
    copy = tmp_path / "celeryconfig.py"
    copy.write_text("\n".join([CONFIG.read_text(), *edits]))
    return list(judged(runpy.run_path(str(copy))))


@pytest.mark.parametrize("budget", ["1", "30", "3600"])
def test_our_own_settings_fit_whatever_a_cycle_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: str
) -> None:
    monkeypatch.setenv("APPOINTMENT_TIMEOUT_MAX_DURATION_SECONDS", budget)
    assert edited(tmp_path, monkeypatch) == []


@pytest.mark.parametrize(
    ("edit", "found", "serious"),
    [
        ("task_time_limit = 56", "task_time_limit is 56 s, and a run", False),
        ("task_soft_time_limit = 30", "task_soft_time_limit is 30 s, and a run", False),
        ("del broker_transport_options['socket_timeout']", "beat hangs for ever", True),
        ("broker_transport_options['socket_connect_timeout'] = None", "has no bound", True),
        ("broker_transport_options['socket_keepalive'] = False", "goes unnoticed", False),
        ("broker_transport_options['health_check_interval'] = 0", "notices", False),
        (
            "broker_transport_options['global_keyprefix'] = 'theirs:'",
            "has not the global_keyprefix that CELERY_BROKER_KEY_PREFIX says",
            True,
        ),
        ("del broker_connection_max_retries", "After 100 attempts", False),
        ("worker_concurrency = 1", "one thing at a time", False),
        ("worker_pool = 'solo'", "one thing at a time", False),
        ("worker_pool = 'gevent'", "The gevent pool is not supported", True),
        ("worker_pool_start_method = 'spawn'", "share neither its stop nor its turn", True),
        (
            "task_routes['calendar.retention'] = {'queue': 'slow'}",
            "calendar.retention goes to the queue slow",
            True,
        ),
        (
            "task_queues = task_queues[1:]",
            "calendar.appointment_timeout goes to the queue calendar.appointment_timeout",
            True,
        ),
        (
            "del task_routes['calendar.outbox_publisher']; task_default_queue = 'theirs'",
            "calendar.outbox_publisher goes to the queue theirs",
            True,
        ),
        ("del beat_schedule['outbox-publisher']", "no entry for calendar.outbox_publisher", True),
        ("del beat_schedule['retention']", "no entry for calendar.retention", False),
        (
            "del beat_schedule['appointment-timeout']['options']",
            "ticks of calendar.appointment_timeout never expire",
            False,
        ),
    ],
)
def test_an_edit_that_breaks_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: str, found: str, *, serious: bool
) -> None:
    [complaint] = edited(tmp_path, monkeypatch, edit)
    assert found in complaint.found
    assert complaint.serious is serious
    assert "celeryconfig.py" in complaint.remedy


def test_a_limit_that_suits_is_nobodys_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert edited(tmp_path, monkeypatch, "task_time_limit = 57", "worker_concurrency = 8") == []


def test_the_settings_in_the_directory_are_those_that_are_read(tmp_path: Path) -> None:
    """As by `celery -A tasks`: a deployment's own file goes before the installed one."""
    (tmp_path / "celeryconfig.py").write_text(f"{CONFIG.read_text()}\ntask_time_limit = 5\n")
    told = subprocess.run(
        [sys.executable, "-m", "app", "doctor"],
        cwd=tmp_path,
        env={"CELERY_BROKER_URL": "redis://127.0.0.1:1/0"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert "celery      warning: task_time_limit is 5 s" in told


def test_without_its_variables_it_is_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "celeryconfig", raising=False)  # of an earlier test
    with pytest.raises(NotExamined, match=r"CELERY_BROKER_URL is not set\."):
        list(examine("celery"))
