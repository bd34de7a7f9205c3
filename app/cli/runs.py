"""`runs`: the kept cycles and drains, by the id that `celery call` printed."""

import sys

from app.cli.desk import connected, console, show_json, shown, table
from app.store import runs as store

FIGURES = (
    "ExpiredCount",
    "SlotsReleasedCount",
    "SlotsExpiredCount",
    "SkippedLockedCount",
    "PublishedCount",
    "RefusedCount",
    "SetAsideCount",
    "DurationMs",
)
"""In the customer's order."""


def runs(run_id: str | None, count: int, job: str | None, *, as_json: bool) -> None:
    """The last cycles and drains, or one of them: times, outcome, figures."""
    with connected() as connection:
        found = (
            store.last(connection, count, job) if run_id is None else store.one(connection, run_id)
        )
    if found is None:
        sys.exit(f"No run {run_id} is kept: not started yet, or past its retention.")
    if as_json:
        show_json(found)
    elif isinstance(found, store.Run):
        _one(found)
    else:
        _several(found)


def _one(run: store.Run) -> None:
    rows: list[tuple[str, object]] = [
        ("job", run.job),
        ("outcome", run.outcome or "under way, or its process was killed"),
        ("started", run.started_at),
        ("finished", run.finished_at),
        ("AsOf", run.as_of),
        *((name, (run.result or {})[name]) for name in FIGURES if name in (run.result or {})),
    ]
    if run.detail:
        rows.append(("detail", run.detail))
    console.print(table(f"Run {run.run_id}", ["", ""], [(name, shown(v)) for name, v in rows]))


def _several(found: list[store.Run]) -> None:
    if not found:
        console.print("No run is kept yet.")
        return
    columns = ["run id", "job", "started (UTC)", "outcome", "what it did", "ms"]
    rows = [
        (
            run.run_id,
            run.job,
            run.started_at,
            run.outcome or "under way",
            run.detail or _figures(run),
            (run.result or {}).get("DurationMs"),
        )
        for run in found
    ]
    console.print(table(f"The last {len(found)} runs", columns, rows))


def _figures(run: store.Run) -> str:
    """The figures that are not zero, in the customer's words without their common ending."""
    if run.result is None:
        return "–"
    told = [
        f"{name.removesuffix('Count')} {run.result[name]}"
        for name in FIGURES
        if run.result.get(name) and name != "DurationMs"
    ]
    return ", ".join(told) or "nothing to do"
