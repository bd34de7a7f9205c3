"""The settings that every `celery -A tasks` command reads, as an adopter may have edited them.

Only settings are looked at: `celeryconfig` is what a deployment keeps and changes.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from app import database
from app.doctor.complaint import Complaint, NotExamined
from app.publish import DRAIN_SECONDS
from app.relay import BATCH_SECONDS
from app.settings import AppointmentTimeoutSettings, BrokerSettings

SENT = ("calendar.appointment_timeout", "calendar.outbox_publisher", "calendar.retention")
"""What beat must send."""
_STATEMENT_SECONDS = database.STATEMENT_SECONDS + database.ANSWER_SECONDS
"""A statement at its limit, on a server that never answers."""


def complaints() -> Iterator[Complaint]:
    """What is wrong with Celery's settings."""
    try:
        module = import_module("celeryconfig")
    except SystemExit as refusal:  # its own way of refusing a wrong variable, which is told
        raise NotExamined(str(refusal)) from None
    except ImportError as error:
        yield Complaint(
            f"The module celeryconfig cannot be imported ({type(error).__name__}).",
            "Run the command where celeryconfig.py is, or install the package as a whole.",
        )
        return
    yield from judged(vars(module))


def judged(config: Mapping[str, Any]) -> Iterator[Complaint]:
    """What is wrong with these settings."""
    yield from _limits(config)
    yield from _broker(config)
    yield from _workers(config)
    for task in SENT:
        yield from _routed(config, task)
        yield from _sent(config, task)


def _limits(config: Mapping[str, Any]) -> Iterator[Complaint]:
    settings = AppointmentTimeoutSettings.load_or_default()
    budget = settings.appointment_timeout_max_duration_seconds
    least = max(budget, DRAIN_SECONDS + BATCH_SECONDS) + _STATEMENT_SECONDS
    for name in ("task_time_limit", "task_soft_time_limit"):
        limit = config.get(name)
        if limit is not None and limit < least:
            yield Complaint(
                f"{name} is {limit:g} s, and a run that keeps all its own bounds may take"
                f" {least:g} s: the tasks do not obey it.",
                f"Set {name} in celeryconfig.py above {least:g}, or to"
                " APPOINTMENT_TIMEOUT_MAX_DURATION_SECONDS and 60 s.",
                serious=False,
            )


def _broker(config: Mapping[str, Any]) -> Iterator[Complaint]:
    options = config.get("broker_transport_options") or {}
    for name, usual, without in (
        ("socket_timeout", "10", "beat hangs for ever, silently, on a half-open connection"),
        ("socket_connect_timeout", "5", "connecting to a host that is gone has no bound"),
        ("socket_keepalive", "True", "a connection that a firewall has dropped goes unnoticed"),
        ("health_check_interval", "10", "a worker notices a half-open connection late"),
    ):
        if not options.get(name):
            yield Complaint(
                f"broker_transport_options has no {name}: {without}.",
                f'Set `"{name}": {usual}` there, in celeryconfig.py.',
                serious=name.endswith("timeout"),
            )
    wanted = BrokerSettings.load_or_default().celery_broker_key_prefix or ""
    if (options.get("global_keyprefix") or "") != wanted:
        yield Complaint(
            "broker_transport_options has not the global_keyprefix that CELERY_BROKER_KEY_PREFIX"
            " says.",
            'Take `"global_keyprefix"` from the shipped celeryconfig.py.',
        )
    retries = config.get("broker_connection_max_retries", 100)
    if retries:
        yield Complaint(
            f"After {retries} attempts to reach Redis, worker and beat end.",
            "Set `broker_connection_max_retries = None` in celeryconfig.py.",
            serious=False,
        )


def _workers(config: Mapping[str, Any]) -> Iterator[Complaint]:
    pool, slots = config.get("worker_pool", "prefork"), config.get("worker_concurrency", 2)
    if pool in {"gevent", "eventlet"}:
        yield Complaint(
            f"The {pool} pool is not supported.",
            'Set `worker_pool = "prefork"` in celeryconfig.py, or leave it out.',
        )
    elif config.get("worker_pool_start_method", "fork") != "fork":
        yield Complaint(
            "A worker's children are spawned: they share neither its stop nor its turn (S1, S5).",
            "Leave worker_pool_start_method out of celeryconfig.py.",
        )
    elif pool == "solo" or slots == 1:
        yield Complaint(
            "A worker does one thing at a time: a Kafka that hangs delays the expiry.",
            "Use prefork or threads with `worker_concurrency = 2` in celeryconfig.py.",
            serious=False,
        )


def _routed(config: Mapping[str, Any], task: str) -> Iterator[Complaint]:
    """A tick in a queue that no worker of ours reads is lost."""
    default = config.get("task_default_queue", "celery")
    queue = (config.get("task_routes") or {}).get(task, {}).get("queue", default)
    if queue not in [one.name for one in config.get("task_queues") or ()]:
        yield Complaint(
            f"{task} goes to the queue {queue}, which is not among task_queues: no worker reads"
            " it.",
            f'Add `Queue("{queue}")` to task_queues in celeryconfig.py, or mend task_routes.',
        )


def _sent(config: Mapping[str, Any], task: str) -> Iterator[Complaint]:
    entries = [one for one in (config.get("beat_schedule") or {}).values() if one["task"] == task]
    if not entries:
        yield Complaint(
            f"beat_schedule has no entry for {task}: nobody sends it.",
            "Restore its entry in celeryconfig.py, unless another scheduler sends it.",
            serious=task != "calendar.retention",
        )
    for entry in entries:
        if not (entry.get("options") or {}).get("expires"):
            yield Complaint(
                f"The ticks of {task} never expire: after an outage all of them are run (S1).",
                'Set `"expires"` in its options in celeryconfig.py to a little less than its'
                " interval.",
                serious=False,
            )
