"""What an app is told to run the three tasks: their modules, queues, routes and ticks.

Ours is told so by `celeryconfig.py`, a foreign one by its own settings (docs/foreign-app.md).
"""

from datetime import UTC, datetime
from typing import Any

from celery.schedules import schedule

from app.settings import AppointmentTimeoutSettings, OutboxSettings
from tasks import steady_clock

MODULES = ("tasks.appointment_timeout", "tasks.outbox_publisher", "tasks.retention")
QUEUES = ("calendar.appointment_timeout", "calendar.outbox_publisher")
ROUTES = {
    "calendar.appointment_timeout": {"queue": "calendar.appointment_timeout"},
    "calendar.outbox_publisher": {"queue": "calendar.outbox_publisher"},
    "calendar.retention": {"queue": "calendar.outbox_publisher"},
}
HOUR = 3600.0


def intervals() -> dict[str, float]:
    """Seconds from tick to tick of each task.

    A wrong variable means the usual ones here: a foreign app asks in its web processes too, which
    are not ours to end. Our own app, our workers and the beat tell of it.
    """
    timeout, outbox = AppointmentTimeoutSettings.load_or_default(), OutboxSettings.load_or_default()
    return {
        "calendar.appointment_timeout": timeout.appointment_timeout_interval_seconds,
        "calendar.outbox_publisher": outbox.outbox_publisher_interval_seconds,
        "calendar.retention": HOUR,
    }


def freshness(interval: float) -> float:
    """A tick older than so many seconds is discarded unrun: shortly before the next one (S1)."""
    return interval * 55 / 60


def time_limit() -> float:
    """The last resort only, in seconds: the work bounds itself long before."""
    timeout = AppointmentTimeoutSettings.load_or_default()
    return timeout.appointment_timeout_max_duration_seconds + 60


def beat_schedule() -> dict[str, dict[str, Any]]:
    """The three entries."""
    return {
        task.removeprefix("calendar.").replace("_", "-"): _entry(task, seconds)
        for task, seconds in intervals().items()
    }


def _entry(task: str, seconds: float) -> dict[str, Any]:
    """Due at once when beat starts, so that a restarted beat delays nobody."""
    return {
        "task": task,
        "schedule": schedule(seconds, nowfun=steady_clock.now),
        "options": {"expires": freshness(seconds)},
        "last_run_at": datetime(1970, 1, 1, tzinfo=UTC),
    }
