"""Celery's settings and nothing else: broker, queues, routes, schedule, limits.

What protects correctness (early ack, no requeue, ignored results, JSON, typed arguments) stands on
the tasks themselves, so that it holds in a foreign app too; what such an app is told as well is in
`tasks/timetable.py`. A foreign app never imports this module.
"""

from kombu import Queue
from kombu.transport import TRANSPORT_ALIASES

from app.environment import SettingsError
from app.settings import AppointmentTimeoutSettings, BrokerSettings, OutboxSettings
from tasks import timetable

try:  # every celery command starts here: one sentence, no traceback
    _broker = BrokerSettings.load()
    AppointmentTimeoutSettings.load()
    OutboxSettings.load()
except SettingsError as error:
    raise SystemExit(str(error)) from None

imports = timetable.MODULES
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
    "global_keyprefix": _broker.celery_broker_key_prefix or "",
    # Whoever keeps its unacknowledged messages with another app's gives those back by its own
    # visibility timeout: that app's long tasks would be run a second time.
    "unacked_key": "calendar.unacked",
    "unacked_index_key": "calendar.unacked_index",
    "unacked_mutex_key": "calendar.unacked_mutex",
}
# `control` reaches every worker of an exchange: told to take another queue, all of them do.
# Events stay where a Flower that is there already finds them.
control_exchange = "calendar"
task_ignore_result = True
accept_content = ["json"]
task_serializer = "json"
result_serializer = "json"

task_default_queue = "calendar.appointment_timeout"
task_queues = tuple(Queue(name, routing_key=name) for name in timetable.QUEUES)
task_routes = dict(timetable.ROUTES)
task_create_missing_queues = False

beat_schedule = timetable.beat_schedule()
# Three fixed entries need no file: nothing that can be torn, locked or read-only.
beat_scheduler = "celery.beat:Scheduler"
beat_max_loop_interval = 5

worker_concurrency = 2  # one slot for the cycle, one for the outbox: neither waits for the other
worker_prefetch_multiplier = 1
worker_send_task_events = True  # so that Flower is not empty
task_send_sent_event = True
worker_enable_remote_control = True
beat_enable_remote_control = True

task_time_limit = timetable.time_limit()
