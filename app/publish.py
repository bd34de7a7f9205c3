"""Verb 2: one drain of the outbox to Kafka: at least once, in order per key (section 7)."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from app import facts, schema
from app.environment import SettingsError
from app.kafka import Sender
from app.relay import Relay
from app.report import DrainOptions, DrainReport
from app.store import errors, runs
from app.store.runs import Job, Outcome

DRAIN_SECONDS = 30.0
"""After so long a drain takes no further batch; the next one goes on."""


def drain(
    engine: Engine,
    sender: Sender,
    options: DrainOptions,
    run_id: str,
    *,
    stopping: Callable[[], bool] = lambda: False,
    tell: facts.Tell = facts.nobody,
) -> DrainReport:
    """Publish what waits, and what a cycle under way adds; a failure is an outcome."""
    started = time.monotonic()
    report = DrainReport(run_id)
    try:
        with engine.begin() as connection:
            schema.check(connection)
            now: datetime = connection.execute(text("SELECT now()")).scalar_one()
        report.started_at = now
        Relay(engine, sender, options, report, stopping, tell).run(now, started + DRAIN_SECONDS)
    except schema.SchemaError as error:  # refused before any row is touched
        report.outcome, report.detail = Outcome.FAILED, str(error)
    except SQLAlchemyError as error:  # what was acknowledged but not marked is sent again
        report.outcome, report.detail = Outcome.FAILED, errors.sentence(error)
    except SettingsError as error:  # the client's options do not go together
        report.outcome, report.detail = Outcome.FAILED, str(error)
    except BaseException as error:  # a signal's SystemExit or a bug: recorded, then passed on
        report.outcome, report.detail = Outcome.FAILED, type(error).__name__
        raise
    finally:
        report.duration_ms = round((time.monotonic() - started) * 1000)
        if report.published or report.refused or report.outcome is Outcome.FAILED:
            _keep(engine, report)
        tell(facts.DrainEnded(report.outcome, report.result(), report.detail))
    return report


def _keep(engine: Engine, report: DrainReport) -> None:
    with suppress(SQLAlchemyError), engine.begin() as connection:  # told by the outcome already
        runs.record(
            connection,
            report.run_id,
            Job.OUTBOX_PUBLISHER,
            report.outcome,
            report.result(),
            report.detail,
            report.started_at,
        )
