"""What the commands share: a checked connection, and how things are shown."""

import dataclasses
import json
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import Any

from rich.console import Console
from rich.table import Table
from sqlalchemy import Connection, Engine

from app import database, schema

_PIPED_WIDTH = 150  # columns, where no terminal says how many it has

if isinstance(sys.stdout, TextIOWrapper):
    sys.stdout.reconfigure(errors="replace")  # a terminal without such signs is no reason to end

console = Console(
    highlight=False, markup=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH
)


def engine() -> Engine:
    """The database that the environment names."""
    return database.configured(connections=2)


@contextmanager
def connected() -> Iterator[Connection]:
    """One transaction on a schema that fits this program."""
    with engine().begin() as connection:
        schema.check(connection)
        yield connection


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends the command in the middle of a statement, which can take minutes.

    psycopg2 alone would wait for its end; PostgreSQL notices within a second that we are gone.
    """
    from psycopg2 import extensions  # noqa: PLC0415

    def wait(connection: Any) -> None:
        ready = {
            extensions.POLL_READ: ([connection], []),
            extensions.POLL_WRITE: ([], [connection]),
        }
        while (state := connection.poll()) != extensions.POLL_OK:
            select.select(*ready[state], [])

    extensions.set_wait_callback(wait)
    try:
        yield
    finally:
        extensions.set_wait_callback(None)


def show_json(found: Any) -> None:
    """Print dataclasses, alone or in lists, as one JSON document."""
    json.dump(_plain(found), sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def _plain(found: Any) -> Any:
    if isinstance(found, datetime):
        return found.astimezone(UTC).isoformat()
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        return {
            field.name: _plain(getattr(found, field.name)) for field in dataclasses.fields(found)
        }
    if isinstance(found, list | tuple):
        return [_plain(item) for item in found]
    if isinstance(found, dict):
        return {key: _plain(value) for key, value in found.items()}
    return found


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A table whose numbers stand to the right."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        show_header=any(columns),
    )
    for number, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[number], int | float) for row in rows)
        made.add_column(
            name,
            justify="right" if numeric else "left",
            overflow="fold",
            min_width=min(36, _widest(rows, number)),
        )
    for row in rows:
        made.add_row(*(shown(cell) for cell in row))
    return made


def _widest(rows: Sequence[Sequence[object]], number: int) -> int:
    """An identifier is never broken: no column is narrower than one, if it holds one."""
    return max((len(shown(row[number])) for row in rows), default=0)


def shown(cell: object) -> str:
    """A value as people read it."""
    match cell:
        case None:
            return "–"
        case datetime():
            return cell.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case float():
            return f"{cell:.1f}"
        case _:
            return str(cell)


def age(seconds: float | None) -> str:
    """A span in the largest units that say something."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if whole >= length:
            smaller = {"d": ("h", 3600), "h": ("min", 60), "min": ("s", 1)}[unit]
            return f"{whole // length} {unit} {whole % length // smaller[1]} {smaller[0]}"
    return f"{max(seconds, 0):.1f} s"
