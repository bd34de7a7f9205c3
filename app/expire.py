"""Verb 1: one cycle of appointment-timeout (section 4)."""

import time
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app import facts, lanes, schema
from app.agenda import Agenda
from app.cycle import Cycle
from app.report import CycleOptions, CycleReport
from app.store import brake, claims, errors, failures, runs
from app.store.runs import Job, Outcome


def run_cycle(
    engine: Engine,
    options: CycleOptions,
    run_id: str,
    *,
    stopping: Callable[[], bool] = lambda: False,
    tell: facts.Tell = facts.nobody,
    trace: facts.Trace = facts.untraced,
) -> CycleReport:
    """Expire what is overdue, keep the run's record, and report; a failure is an outcome.

    `engine` must allow `options.connections` + 2 connections. `stopping` is asked between items.
    """
    started = time.monotonic()
    report = CycleReport(run_id)
    try:
        with engine.begin() as connection:
            schema.check(connection)
            opening = claims.open_cycle(connection, options.batch_size)
            pulled = brake.pull_beyond(connection, options.brake) or brake.current(connection)
            runs.start(connection, run_id, Job.APPOINTMENT_TIMEOUT, opening.as_of)
            failed = failures.failed_before(connection, opening.as_of) if opening.due else []
        report.as_of = opening.as_of
        if pulled:
            report.outcome, report.detail = Outcome.SKIPPED, pulled.sentence
            return report
        tell(facts.CycleStarted(run_id, opening.as_of))
        tell(facts.BatchSelected(opening.due))
        if opening.due:
            agenda = Agenda(
                batch_size=options.batch_size,
                seconds=options.max_duration_seconds,
                stopping=stopping,
                failed_before=failed,
            )
            cycle = Cycle(agenda, report, opening, tell, trace)
            lanes.run(engine, cycle, min(options.connections, opening.due))
    except schema.SchemaError as error:  # refused before any row is touched
        report.outcome, report.detail = Outcome.FAILED, str(error)
    except SQLAlchemyError as error:  # infrastructure (C5): the next cycle retries
        report.outcome, report.detail = Outcome.FAILED, errors.sentence(error)
    except BaseException as error:  # a signal's SystemExit or a bug: recorded, then passed on
        report.outcome, report.detail = Outcome.FAILED, type(error).__name__
        raise
    finally:
        report.duration_ms = round((time.monotonic() - started) * 1000)
        _keep(engine, report)
        if report.outcome is Outcome.SKIPPED:
            tell(facts.TickSkipped(Job.APPOINTMENT_TIMEOUT, report.detail or ""))
        else:
            tell(facts.CycleEnded(report.outcome, report.result(), report.failed, report.detail))
    return report


def _keep(engine: Engine, report: CycleReport) -> None:
    """Close the run's record; when the database is away the log alone has it."""
    with suppress(SQLAlchemyError), engine.begin() as connection:  # told by the outcome already
        runs.finish(connection, report.run_id, report.outcome, report.result(), report.detail)
