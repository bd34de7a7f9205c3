"""`docs/benchmarks/README.md`: the table, what it was measured on, and the sides of each ratio."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from dev.bench import plot
from dev.bench.stage import SETTINGS
from dev.bench.table import Row, markdown

_SERVER = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
_INTRODUCTION = f"""# Benchmarks

<!-- Made by `make bench ARGS="--write docs/benchmarks"`: do not edit. -->

Each figure divides two things that were measured in turns, in the same run, on the same servers:
machines differ, and so does one machine from minute to minute. Given is the median of the rounds
and, as its noise, what half of them lie between. PostgreSQL waits for the disk at every commit
({_SERVER}); Kafka acknowledges with acks=all to an idempotent producer.
"""


def write(directory: Path, command: str, rows: Sequence[Row]) -> None:
    """Renew the page and its plots."""
    directory.mkdir(parents=True, exist_ok=True)
    parts = [
        _INTRODUCTION,
        _circumstances(command, rows),
        markdown(rows),
        "\n## What was measured\n",
        *(_sides(row) for row in rows),
    ]
    for name, drawing in plot.drawings(rows).items():
        (directory / f"{name}.svg").write_text(drawing)
        parts.append(f"\n![{name}]({name}.svg)")
    (directory / "README.md").write_text("\n".join(parts) + "\n")


def _circumstances(command: str, rows: Sequence[Row]) -> str:
    day = datetime.now(UTC).date().isoformat()
    loads = [load for row in rows for load in row.load]
    return (
        f"`{command}`, {day}: {os.cpu_count()} cores, load average between {min(loads):.1f} and"
        f" {max(loads):.1f} (the bench's own work included).\n"
    )


def _sides(row: Row) -> str:
    said = "; ".join([*row.sides, *row.measured.notes])
    return f"* **{row.figure.name}** (load {row.load[0]:.1f}): {said}"
