"""The kept record of every run of a job (C6), by its run id: what a manual caller can fetch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, text

MISSED_TICKS = 5
"""So many intervals without the end of a cycle, anywhere, and the jobs do not live."""


class Job(StrEnum):
    """The three jobs, as their runs are kept."""

    APPOINTMENT_TIMEOUT = "appointment_timeout"
    OUTBOX_PUBLISHER = "outbox_publisher"
    RETENTION = "retention"


class Outcome(StrEnum):
    """How a run ended (C6). The first two are successes."""

    COMPLETED = "completed"
    CUT_SHORT = "cut_short"
    STOPPED = "stopped"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Run:
    """One run; `finished_at` None while it goes on, or for ever when its process was killed."""

    run_id: str
    job: str
    as_of: datetime | None
    started_at: datetime
    finished_at: datetime | None
    outcome: str | None
    detail: str | None
    result: Mapping[str, Any] | None


def start(connection: Connection, run_id: str, job: Job, as_of: datetime) -> None:
    """A run begins; the same id again (a redelivered message) begins anew."""
    connection.execute(
        text(
            """
            INSERT INTO calendar.job_runs (run_id, job, as_of, started_at)
            VALUES (:run_id, :job, :as_of, clock_timestamp())
            ON CONFLICT (run_id) DO UPDATE
            SET job = excluded.job, as_of = excluded.as_of, started_at = excluded.started_at,
                finished_at = NULL, outcome = NULL, detail = NULL, result = NULL
            """
        ),
        {"run_id": run_id, "job": job, "as_of": as_of},
    )


def finish(
    connection: Connection,
    run_id: str,
    outcome: Outcome,
    result: Mapping[str, Any],
    detail: str | None = None,
) -> None:
    """A run is over."""
    connection.execute(
        text(
            """
            UPDATE calendar.job_runs
            SET finished_at = clock_timestamp(), outcome = :outcome, detail = :detail,
                result = CAST(:result AS jsonb)
            WHERE run_id = :run_id
            """
        ),
        {"run_id": run_id, "outcome": outcome, "detail": detail, "result": json.dumps(result)},
    )


def record(
    connection: Connection,
    run_id: str,
    job: Job,
    outcome: Outcome,
    result: Mapping[str, Any],
    detail: str | None = None,
    started_at: datetime | None = None,
) -> None:
    """Keep a run that had no beginning of its own; one that is already kept under its id stays."""
    connection.execute(
        text(
            """
            INSERT INTO calendar.job_runs
                (run_id, job, started_at, finished_at, outcome, detail, result)
            VALUES (:run_id, :job, coalesce(:started_at, clock_timestamp()), clock_timestamp(),
                    :outcome, :detail, CAST(:result AS jsonb))
            ON CONFLICT (run_id) DO NOTHING
            """
        ),
        {
            "run_id": run_id,
            "job": job,
            "started_at": started_at,
            "outcome": outcome,
            "detail": detail,
            "result": json.dumps(result),
        },
    )


_COLUMNS = "run_id, job, as_of, started_at, finished_at, outcome, detail, result"


def one(connection: Connection, run_id: str) -> Run | None:
    """The run of this id, if it is kept."""
    row = connection.execute(
        text(f"SELECT {_COLUMNS} FROM calendar.job_runs WHERE run_id = :run_id"),
        {"run_id": run_id},
    ).first()
    return None if row is None else Run(*row)


def last(connection: Connection, count: int, job: str | None = None) -> list[Run]:
    """The newest runs, newest first; of one job or of all."""
    rows = connection.execute(
        text(
            f"""SELECT {_COLUMNS} FROM calendar.job_runs
            WHERE CAST(:job AS text) IS NULL OR job = :job
            ORDER BY started_at DESC LIMIT :count"""
        ),
        {"job": job, "count": count},
    )
    return [Run(*row) for row in rows]


def seconds_since_last(connection: Connection, job: Job) -> float | None:
    """How long ago a run of this job did its work to the end; None: no such run is kept."""
    found = connection.execute(
        text(
            """
            SELECT extract(epoch FROM now() - finished_at)::float FROM calendar.job_runs
            WHERE job = :job AND finished_at IS NOT NULL AND outcome <> 'failed'
            ORDER BY started_at DESC LIMIT 1
            """
        ),
        {"job": job},
    ).scalar()
    return None if found is None else float(found)


def going_on(connection: Connection, job: Job, at_most_seconds: float) -> bool:
    """Whether a run of this job is under way; one started longer ago than that was killed."""
    return bool(
        connection.execute(
            text(
                """
                SELECT EXISTS (
                    SELECT FROM calendar.job_runs
                    WHERE job = :job AND finished_at IS NULL
                      AND started_at > now() - make_interval(secs => :seconds)
                )
                """
            ),
            {"job": job, "seconds": at_most_seconds},
        ).scalar_one()
    )
