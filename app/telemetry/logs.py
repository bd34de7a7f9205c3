"""Structured logs: every line of worker, beat and CLI in one format, Celery's own too."""

import logging
import sys
from typing import Any, assert_never

import structlog

from app import facts
from app.store.runs import Job

SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def logger() -> structlog.stdlib.BoundLogger:
    """The product's logger, a standard one underneath.

    Wrapped here and not by a global setting: a foreign app that uses structlog keeps its own.
    """
    wrapped: structlog.stdlib.BoundLogger = structlog.wrap_logger(
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

    def tell(fact: facts.Fact) -> None:
        match fact:
            case facts.CycleStarted(as_of=as_of):
                log.info("cycle started", AsOf=as_of.isoformat())
            case facts.BatchSelected(count=count):
                log.info("batch selected", count=count)
            case facts.AppointmentExpired():
                log.info(
                    "appointment expired",
                    AppointmentId=str(fact.appointment_id),
                    SlotId=str(fact.slot_id),
                    CalendarEventId=str(fact.calendar_event_id),
                    TenantId=str(fact.tenant_id),
                    slot_outcome=fact.slot_outcome,
                )
            case facts.ItemFailed(appointment_id=appointment_id, failure=failure):
                log.error(
                    "item failed",
                    AppointmentId=str(appointment_id),
                    exception=failure.rule,
                    sqlstate=failure.sqlstate,
                )
            case facts.CycleEnded():
                _ended(log, "cycle completed", fact)
            case facts.DrainEnded():
                _ended(log, "drain completed", fact)
            case facts.MessageRefused():
                log.error(
                    "message refused",
                    messageId=str(fact.message_id),
                    topic=fact.topic,
                    error=fact.error,
                    attempts=fact.attempts,
                    set_aside=fact.set_aside,
                )
            case facts.TickSkipped(job=job, reason=reason):
                # a wake-up that meets a drain at work is the rule, a cycle that does is not
                level = "info" if job == Job.OUTBOX_PUBLISHER else "warning"
                getattr(log, level)("tick skipped", job=job, reason=reason)
            case _:
                assert_never(fact)

    return tell


def _ended(log: Any, name: str, fact: facts.CycleEnded | facts.DrainEnded) -> None:
    """Under the line's customary name whatever the outcome, so that one search finds them all."""
    figures = {
        key.replace("SkippedLockedCount", "SkippedLocked"): value
        for key, value in fact.result.items()
    }
    if fact.outcome == "failed":
        log.error(name, outcome=fact.outcome, **figures, detail=fact.detail)
    elif isinstance(fact, facts.CycleEnded) or any(
        value for key, value in fact.result.items() if key != "DurationMs"
    ):
        log.info(name, outcome=fact.outcome, **figures)
