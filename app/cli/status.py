"""`status`: is the work being done, and what stands in its way."""

from dataclasses import asdict

from rich.table import Table

from app.cli.desk import age, connected, console, show_json, shown, table
from app.cli.forecast import Forecast, forecast
from app.settings import AppointmentTimeoutSettings
from app.store import brake, pace
from app.store import status as store


def status(limit: int, *, as_json: bool) -> None:
    """Backlog and its oldest age, poison items with reasons, outbox, last successful cycle."""
    interval = AppointmentTimeoutSettings.load().appointment_timeout_interval_seconds
    with connected() as connection:
        found = store.read(connection)
        poison = store.poison(connection, limit)
        overdue = store.overdue(connection, limit)
        pulled = brake.current(connection)
        lately = pace.lately(connection, overdue[0].pending_expires_at) if overdue else None
    empty_in = forecast(found.backlog - found.poison, lately, pulled, interval) if overdue else None
    if as_json:
        lists = {"poison_items": poison, "overdue_items": overdue}
        show_json({**asdict(found), "brake": pulled, "empty_in": empty_in, **lists})
        return
    if pulled:
        console.print(f"No appointment expires: {pulled.sentence}.")
    console.print(table("Status", ["", ""], _figures(found, empty_in)))
    if poison:
        console.print(_poison(poison))
    if overdue:
        console.print(_overdue(overdue))


def _figures(found: store.Status, empty_in: Forecast | None) -> list[tuple[str, str]]:
    last = found.last_successful_cycle
    since = None if last is None else (found.now - last).total_seconds()
    return [
        ("Overdue, not yet expired", _counted(found.backlog)),
        ("  oldest overdue for", age(found.oldest_overdue_seconds)),
        ("  expired in", str(empty_in) if empty_in else "–"),
        ("Poison items", _counted(found.poison)),
        ("Messages unsent", _counted(found.outbox_backlog)),
        ("  oldest waiting for", age(found.oldest_unsent_seconds)),
        ("  set aside", _counted(found.set_aside)),
        ("Last successful cycle", f"{shown(last)} UTC, {age(since)} ago" if last else "none kept"),
        ("Oldest open transaction", age(found.oldest_transaction_seconds)),
    ]


def _poison(found: list[store.Poison]) -> Table:
    return table(
        "Poison items (they stay Pending until their data is mended)",
        ["appointment", "rule", "SQLSTATE", "failing since", "attempts"],
        [(p.appointment_id, p.rule, p.sqlstate, p.first_failed_at, p.attempts) for p in found],
    )


def _overdue(found: list[store.Overdue]) -> Table:
    return table(
        "Overdue for longest without a failure (`python -m app why` tells the reason)",
        ["appointment", "overdue since"],
        [(one.appointment_id, one.pending_expires_at) for one in found],
    )


def _counted(number: int) -> str:
    return f"{number:,}" if number < store.CAP else f"{store.CAP:,} or more"
