"""Keeps the outbox and the run records small: old rows leave in bounded batches (O5)."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine

from app.store import retention as store

BATCH = 5_000
SECONDS = 5.0
"""A run ends after so long; the next hour goes on."""


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """How many days are kept."""

    outbox_days: float = 7
    job_runs_days: float = 7


def sweep(
    engine: Engine, options: RetentionOptions, *, stopping: Callable[[], bool] = lambda: False
) -> dict[str, int]:
    """Remove what is older, never an unsent message; each batch its own short transaction."""
    deadline = time.monotonic() + SECONDS
    removed = {"OutboxMessagesRemoved": 0, "JobRunsRemoved": 0}
    for name, remove, days in (
        ("OutboxMessagesRemoved", store.remove_published, options.outbox_days),
        ("JobRunsRemoved", store.remove_runs, options.job_runs_days),
    ):
        while time.monotonic() < deadline and not stopping():
            with engine.begin() as connection:
                count = remove(connection, days, BATCH)
            removed[name] += count
            if count < BATCH:
                break
    return removed
