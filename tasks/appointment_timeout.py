"""The tick of appointment-timeout."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from celery import Task, shared_task

from app import expire, facts
from app.report import CycleOptions, CycleReport
from app.settings import AppointmentTimeoutSettings
from app.store.brake import BrakeLimits
from app.store.runs import Job
from app.telemetry import logs, traces
from tasks.doors import Standing, ended, engine, one_at_a_time, telling
from tasks.process import instance

log = logs.logger()


@shared_task(name="calendar.appointment_timeout", base=Standing, bind=True)
def appointment_timeout(self: "Task[[], dict[str, int]]") -> dict[str, int]:
    """Expire overdue appointments: one cycle (sections 3-6). Takes no argument."""
    run_id = str(self.request.id)
    settings = AppointmentTimeoutSettings.load()
    interval = settings.appointment_timeout_interval_seconds
    full = False

    def cycle() -> dict[str, int]:
        nonlocal full
        wake = Wake(lambda: _send(self, "calendar.outbox_publisher", interval))
        with traces.here().run("cycle", run_id):
            report = expire.run_cycle(
                engine(),
                _options(settings),
                run_id,
                stopping=instance().stopping,
                tell=telling(wake),
                trace=traces.here().item,
            )
        full = report.full(settings.appointment_timeout_batch_size)
        return ended(report.outcome, report.detail, report.result())

    result = one_at_a_time(self, Job.APPOINTMENT_TIMEOUT, CycleReport(run_id).result(), cycle)
    if full and settings.appointment_timeout_catch_up:  # section 10: a run of its own, at once
        _send(self, "calendar.appointment_timeout", interval)
    return result


def _options(settings: AppointmentTimeoutSettings) -> CycleOptions:
    return CycleOptions(
        batch_size=settings.appointment_timeout_batch_size,
        max_duration_seconds=settings.appointment_timeout_max_duration_seconds,
        connections=settings.appointment_timeout_connections,
        brake=BrakeLimits(
            settings.appointment_timeout_pause_above_overdue,
            settings.appointment_timeout_pause_above_seconds,
        ),
    )


def _send(task: "Task[Any, Any]", name: str, expires: float) -> None:
    """Send a task by its name and route; when the broker is away, the schedule does it later."""
    try:
        task.app.send_task(name, expires=expires, retry=False, headers=traces.here().carried())
    except Exception as error:  # noqa: BLE001 - any transport's error: the work in hand must not feel it (O1)
        log.warning("task not sent", task=name, error=type(error).__name__)


class Wake:
    """Wakes the publisher as soon as a cycle has committed its first item (O1).

    In a thread of its own, so that a broker that hangs delays no item.
    """

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self._once = threading.Lock()

    def __call__(self, fact: facts.Fact) -> None:
        """Hear of the cycle's commits; only the first one matters."""
        if isinstance(fact, facts.AppointmentExpired) and self._once.acquire(blocking=False):
            traced = partial(copy_context().run, self._send)
            threading.Thread(target=traced, name="wake-publisher", daemon=True).start()
