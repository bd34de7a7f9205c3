"""Structured logs: every line of worker, beat and CLI in one format, Celery's own too."""

import logging
import sys
from contextlib import AbstractContextManager
from functools import singledispatch
from typing import Any

import structlog

from app import facts
from app.store.runs import Job, Outcome
from app.telemetry import traces

Log = structlog.stdlib.BoundLogger

SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    traces.add_ids,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def logger() -> Log:
    """The product's logger, a standard one underneath.

    Wrapped here and not by a global setting: a foreign app that uses structlog keeps its own.
    """
    wrapped: Log = structlog.wrap_logger(
        logging.getLogger("calendar"),
        processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return wrapped


def configure(log_format: str) -> None:
    """Send everything that is logged to stderr, as JSON lines or readable on a console."""
    renderer: Any = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(capture=True)


_log = logger()


def of_run(run_id: str) -> AbstractContextManager[None]:
    """Every line that is logged in the block, whoever logs it, names the run."""
    return structlog.contextvars.bound_contextvars(runId=run_id)


@singledispatch
def listener(_fact: facts.Fact) -> None:
    """A run's facts as the specification's log lines (section 8); identifiers only.

    A fact without a line of its own: another's has its number.
    """


@listener.register
def _(fact: facts.CycleStarted) -> None:
    _log.info("cycle started", AsOf=fact.as_of.isoformat())


@listener.register
def _(fact: facts.BatchSelected) -> None:
    _log.info("batch selected", count=fact.count)


@listener.register
def _(fact: facts.AppointmentExpired) -> None:
    _log.info(
        "appointment expired",
        AppointmentId=str(fact.appointment_id),
        SlotId=str(fact.slot_id),
        CalendarEventId=str(fact.calendar_event_id),
        TenantId=str(fact.tenant_id),
        slot_outcome=fact.slot_outcome,
    )


@listener.register
def _(fact: facts.ItemFailed) -> None:
    _log.error(
        "item failed",
        AppointmentId=str(fact.appointment_id),
        exception=fact.failure.rule,
        sqlstate=fact.failure.sqlstate,
    )


@listener.register
def _(fact: facts.MessageRefused) -> None:
    _log.error(
        "message refused",
        messageId=str(fact.message_id),
        topic=fact.topic,
        error=fact.error,
        attempts=fact.attempts,
        set_aside=fact.set_aside,
    )


@listener.register
def _(fact: facts.TickSkipped) -> None:
    # A wake-up that meets a drain at work is the rule, a cycle that does is not.
    level = "info" if fact.job == Job.OUTBOX_PUBLISHER else "warning"
    getattr(_log, level)("tick skipped", job=fact.job, reason=fact.reason)


@listener.register
def _(fact: facts.CycleEnded) -> None:
    _ended("cycle completed", fact)


@listener.register
def _(fact: facts.DrainEnded) -> None:
    if fact.outcome == Outcome.FAILED or any(
        v for k, v in fact.result.items() if k != "DurationMs"
    ):
        _ended("drain completed", fact)


def _ended(name: str, fact: facts.CycleEnded | facts.DrainEnded) -> None:
    """Under the line's customary name whatever the outcome, so that one search finds them all."""
    level = "error" if fact.outcome == Outcome.FAILED else "info"
    figures = {
        key.replace("SkippedLockedCount", "SkippedLocked"): value
        for key, value in fact.result.items()
    }
    detail = {"detail": fact.detail} if fact.detail else {}
    getattr(_log, level)(name, outcome=fact.outcome, **figures, **detail)
