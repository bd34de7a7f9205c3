"""What the three task doors share: how a task stands in Celery, and one run at a time per node."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from celery import Task
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app import database, facts
from app.environment import SettingsError
from app.report import DRAIN_LANES
from app.settings import AppointmentTimeoutSettings
from app.store import runs
from app.store.runs import Job, Outcome
from app.telemetry import logs, traces
from tasks import timetable
from tasks.process import instance


class RunFailedError(Exception):
    """A run ended as `failed`; the message is one plain sentence, its cause is in the log."""


class Standing(Task):  # type: ignore[type-arg]
    """How each of the three tasks stands in Celery, whatever app it is in.

    A base of our own: what a foreign app has its tasks inherit (retries, say) does not reach these.
    """

    ignore_result = True  # the figures are in PostgreSQL, the event and the log
    store_errors_even_if_ignored = False
    acks_late = False  # a lost tick is made good by the next one; a repeated one only disturbs
    reject_on_worker_lost = False
    retry_on_worker_lost = False
    rate_limit = ""  # none: a tick that waits is a tick late
    serializer = "json"
    Strategy = "tasks.refusal:strategy"
    typing = True
    throws = (RunFailedError, SettingsError)  # they have told their cause: no traceback

    @property
    def expires(self) -> float:  # type: ignore[override]
        """With whatever scheduler: some know nothing of the entry's own (S1)."""
        return timetable.freshness(timetable.intervals()[self.name])

    @property
    def time_limit(self) -> float:  # type: ignore[override]
        """The app's, unless it would end healthy runs."""
        return max(self.app.conf.task_time_limit or 0, timetable.time_limit())

    @property
    def soft_time_limit(self) -> float | None:  # type: ignore[override]
        """The app's, if it has one, unless it would end healthy runs."""
        soft: float | None = self.app.conf.task_soft_time_limit
        return soft and max(soft, timetable.time_limit())

    @classmethod
    def annotate(cls) -> None:
        """The app's `task_annotations` may add to a task, and take nothing of this away."""
        super().annotate()
        for name in vars(Standing).keys() & vars(cls).keys():
            if not name.startswith("__"):
                delattr(cls, name)


def engine() -> Engine:
    """This process's engine: a connection for each lane of a cycle, one beside them, one spare.

    And for those of a drain, which is at work in the same process where its pool is of threads.
    """
    lanes = AppointmentTimeoutSettings.load().appointment_timeout_connections
    return database.configured(lanes + 2 + DRAIN_LANES)


def telling(*more: facts.Tell) -> facts.Tell:
    """Who hears of a run: log, metrics, traces, and `more`."""
    from app.telemetry import metrics  # noqa: PLC0415 - in a worker only

    return facts.tell_all(logs.listener, metrics.listener, traces.here().hear, *more)


def one_at_a_time(
    task: "Task[Any, Any]", job: Job, nothing: dict[str, int], work: Callable[[], dict[str, int]]
) -> dict[str, int]:
    """Run, unless the previous run is still at work on this node: then skip at once (S1)."""
    run_id = str(task.request.id)
    sender = getattr(task.request, "traceparent", None)
    with logs.of_run(run_id), traces.here().tick(task.name, run_id, sender):
        with instance().slot(job).hold() as ours:
            if ours:
                return work()
        return _skipped(job, run_id, nothing)


def _skipped(job: Job, run_id: str, nothing: dict[str, int]) -> dict[str, int]:
    telling()(facts.TickSkipped(job, facts.STILL_RUNNING))
    with suppress(SQLAlchemyError), engine().begin() as connection:  # logged already
        runs.record(connection, run_id, job, Outcome.SKIPPED, nothing, facts.STILL_RUNNING)
    return nothing


def ended(outcome: str, detail: str | None, result: dict[str, int]) -> dict[str, int]:
    """The task's result; a failed run is a failed task."""
    if outcome == Outcome.FAILED:
        raise RunFailedError(detail)
    return result
