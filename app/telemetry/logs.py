"""Structured logs: every line of worker, beat and CLI in one format, Celery's own too."""

import logging
import sys
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


def listener(run_id: str) -> facts.Tell:
    """One run's facts as the specification's log lines (section 8); identifiers only."""
    log = logger().bind(runId=run_id)
    return lambda fact: _line(fact, log)


@singledispatch
def _line(_fact: facts.Fact, _log: Log) -> None:
    """A fact without a line of its own: another's has its number."""


@_line.register
def _(fact: facts.CycleStarted, log: Log) -> None:
    log.info("cycle started", AsOf=fact.as_of.isoformat())


@_line.register
def _(fact: facts.BatchSelected, log: Log) -> None:
    log.info("batch selected", count=fact.count)


@_line.register
def _(fact: facts.AppointmentExpired, log: Log) -> None:
    log.info(
        "appointment expired",
        AppointmentId=str(fact.appointment_id),
        SlotId=str(fact.slot_id),
        CalendarEventId=str(fact.calendar_event_id),
        TenantId=str(fact.tenant_id),
        slot_outcome=fact.slot_outcome,
    )


@_line.register
def _(fact: facts.ItemFailed, log: Log) -> None:
    log.error(
        "item failed",
        AppointmentId=str(fact.appointment_id),
        exception=fact.failure.rule,
        sqlstate=fact.failure.sqlstate,
    )


@_line.register
def _(fact: facts.MessageRefused, log: Log) -> None:
    log.error(
        "message refused",
        messageId=str(fact.message_id),
        topic=fact.topic,
        error=fact.error,
        attempts=fact.attempts,
        set_aside=fact.set_aside,
    )


@_line.register
def _(fact: facts.TickSkipped, log: Log) -> None:
    # A wake-up that meets a drain at work is the rule, a cycle that does is not.
    level = "info" if fact.job == Job.OUTBOX_PUBLISHER else "warning"
    getattr(log, level)("tick skipped", job=fact.job, reason=fact.reason)


@_line.register
def _(fact: facts.CycleEnded, log: Log) -> None:
    _ended(log, "cycle completed", fact)


@_line.register
def _(fact: facts.DrainEnded, log: Log) -> None:
    if fact.outcome == Outcome.FAILED or any(
        v for k, v in fact.result.items() if k != "DurationMs"
    ):
        _ended(log, "drain completed", fact)


def _ended(log: Log, name: str, fact: facts.CycleEnded | facts.DrainEnded) -> None:
    """Under the line's customary name whatever the outcome, so that one search finds them all."""
    level = "error" if fact.outcome == Outcome.FAILED else "info"
    figures = {
        key.replace("SkippedLockedCount", "SkippedLocked"): value
        for key, value in fact.result.items()
    }
    detail = {"detail": fact.detail} if fact.detail else {}
    getattr(log, level)(name, outcome=fact.outcome, **figures, **detail)
