"""Celery's settings and nothing else: broker, queues, routes, schedule, limits.

What protects correctness (early ack, no requeue, ignored results, JSON, typed arguments) stands on
the tasks themselves, so that it holds in a foreign app too.
"""

from datetime import UTC, datetime

from celery.schedules import schedule
from kombu import Queue
from kombu.transport import TRANSPORT_ALIASES

from app.settings import (
    AppointmentTimeoutSettings,
    BrokerSettings,
    OutboxSettings,
    SettingsError,
)
from tasks import steady_clock

try:
    _broker = BrokerSettings.load()
    _timeout = AppointmentTimeoutSettings.load()
    _outbox = OutboxSettings.load()
except SettingsError as error:  # every celery command starts here: one sentence, no traceback
    raise SystemExit(str(error)) from None

HOUR = 3600.0


def _entry(task: str, seconds: float) -> dict[str, object]:
    """A tick is discarded unrun shortly before the next one is sent (S1).

    Due at once when beat starts, so that a restarted beat delays nobody.
    """
    return {
        "task": task,
        "schedule": schedule(seconds, nowfun=steady_clock.now),
        "options": {"expires": seconds * 55 / 60},
        "last_run_at": datetime(1970, 1, 1, tzinfo=UTC),
    }


imports = ("tasks.appointment_timeout", "tasks.outbox_publisher", "tasks.retention")
timezone = "UTC"

# Redis is the broker and nothing else: no result store, no lock (ADR-0056).
broker_url = _broker.celery_broker_url
# Ours survives an item that is no JSON. Named by the URL's scheme and not by `broker_transport`,
# so that whoever asks is still told that it is Redis: Flower's broker page, banners, logs.
TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), "tasks.refusal:Transport"))
broker_connection_retry_on_startup = True
broker_connection_max_retries = None  # for ever: a broker away for an hour is no reason to exit
broker_transport_options = {
    "socket_timeout": 10,  # without it beat hangs for ever, silently, on a half-open connection
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
}
task_ignore_result = True
accept_content = ["json"]
task_serializer = "json"
result_serializer = "json"

task_default_queue = "calendar.appointment_timeout"
task_queues = tuple(
    Queue(name, routing_key=name)
    for name in ("calendar.appointment_timeout", "calendar.outbox_publisher")
)
task_routes = {
    "calendar.appointment_timeout": {"queue": "calendar.appointment_timeout"},
    "calendar.outbox_publisher": {"queue": "calendar.outbox_publisher"},
    "calendar.retention": {"queue": "calendar.outbox_publisher"},
}
task_create_missing_queues = False

beat_schedule = {
    "appointment-timeout": _entry(
        "calendar.appointment_timeout", _timeout.appointment_timeout_interval_seconds
    ),
    "outbox-publisher": _entry(
        "calendar.outbox_publisher", _outbox.outbox_publisher_interval_seconds
    ),
    "retention": _entry("calendar.retention", HOUR),
}
# Three fixed entries need no file: nothing that can be torn, locked or read-only.
beat_scheduler = "celery.beat:Scheduler"
beat_max_loop_interval = 5

worker_concurrency = 2  # one slot for the cycle, one for the outbox: neither waits for the other
worker_prefetch_multiplier = 1
worker_send_task_events = True  # so that Flower is not empty
task_send_sent_event = True
worker_enable_remote_control = True
beat_enable_remote_control = True

# The last resort only: the work bounds itself long before.
task_time_limit = _timeout.appointment_timeout_max_duration_seconds + 60
