"""`python -m dev.bench.scaling`: renew the tables of `docs/scaling.md` from `figures.json`."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from dev.bench.model import Pace, share, simulate
from dev.processes import ROOT

DOCS = ROOT / "docs"
LOADS = (10, 1_000, 100_000)
"""Expiries a second."""
BUSY = 0.7
"""Of what a process or a core can do, so much is planned with; the rest is for peaks."""
PRIMARY_CORES = 32
BATCH = 1_000
NODE_CONNECTIONS = 13
"""A node's two children with four lanes and two more each, and the metrics' one."""
INPUTS = frozenset({"cycle", "four-workers", "drain", "tick"})
"""The figures without which there is no model."""
_HOUR, _DAY, _WEEK = 3_600, 86_400, 7 * 86_400

Figures = Mapping[str, Any]
Table = list[list[str]]


def renew(figures: Figures, page: Path) -> None:
    """Put the tables in their places; what is not measured yet is said so."""
    written = page.read_text()
    for name, table in (("loads", loads(figures)), ("measured", beside(figures))):
        place = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        rows = _markdown(table)
        written = place.sub(rf"\g<1>{rows}\n\g<2>", written)
    page.write_text(written)


def loads(figures: Figures) -> Table:
    """What each load needs."""
    process, cores = _measured(figures, "cycle", "cycle"), figures["four-workers"]["cores"]
    whole = cores / _measured(figures, "four-workers", "four workers")
    postgres = cores / _measured(figures, "four-workers", "pgbench")
    drained = _measured(figures, "drain", "drain")
    columns = []
    for load in LOADS:
        processes = _up(load / (BUSY * process))
        late = simulate(_pace(figures), load / processes, 300)
        columns.append(
            [
                f"{load:,}/s",
                f"{load * 60:,}",
                f"{processes:,}",
                f"{load * whole / BUSY:,.2f}",
                f"{load * postgres / BUSY:,.2f}",
                f"{_up(load * postgres / BUSY / PRIMARY_CORES):,}",
                f"{processes * NODE_CONNECTIONS:,}",
                f"{share(late, 0.5):.0f} s, {share(late, 0.99):.0f} s",
                f"{_up(2 * load / (BUSY * drained)):,}",
                f"{2 * load * _WEEK / 1e6:,.0f} million",
                f"{2 * load * _HOUR:,}",
                f"{load * _DAY / 1e6:,.1f} million",
            ]
        )
    names = [
        "expiries",
        "due at each tick of 60 s",
        "worker processes at work on expiry",
        "cores, all together",
        "of which PostgreSQL's",
        f"primaries of {PRIMARY_CORES} cores",
        "connections of so many nodes, at most",
        "late: half of them, 99 of 100",
        "publishers at work",
        "outbox rows in a week",
        "of which retention removes an hour",
        "appointments that expire a day",
    ]
    return [list(row) for row in zip(names, *columns, strict=True)]


def beside(figures: Figures) -> Table:
    """What the model says of what was measured as well."""
    process, cores = _measured(figures, "cycle", "cycle"), figures["four-workers"]["cores"]
    four = _measured(figures, "four-workers", "four workers")
    shipped = Pace(process, catch_up=True, gap=_pace(figures).gap).sustained
    caught_up = _or_not(figures, "catch-up", "catch-up", "/s")
    table = [
        ["", "modelled", "measured"],
        [
            f"four processes on {cores} cores, which one fills",
            f"{process:,.0f}/s",
            f"{four:,.0f}/s",
        ],
        ["a worker with catch-up, batches of 200", f"{shipped:,.0f}/s", caught_up],
    ]
    for load in ("below what is sustained", "above it"):
        name = f"p99 {load}"
        modelled = _or_not(figures, "lateness", f"{name}, modelled", " s")
        measured = _or_not(figures, "lateness", name, " s")
        table.append([f"late, 99 of 100, {load} (tick 1 s, batch 50)", modelled, measured])
    return table


def _pace(figures: Figures) -> Pace:
    """One process, catching up in larger batches; what a tick costs is its gap."""
    gap = _measured(figures, "tick", "tick") / 1000
    return Pace(_measured(figures, "cycle", "cycle"), batch=BATCH, catch_up=True, gap=gap)


def _measured(figures: Figures, figure: str, side: str) -> float:
    return float(median(figures[figure]["samples"][side]["values"]))


def _or_not(figures: Figures, figure: str, side: str, unit: str) -> str:
    if figure not in figures:
        return "not yet"
    three = float(f"{_measured(figures, figure, side):.3g}")  # places that mean something
    return f"{three:,g}{unit}"


def _up(number: float) -> int:
    return max(1, math.ceil(number))


def _markdown(table: Sequence[Sequence[str]]) -> str:
    first, *others = table
    lines = [first, ["---", *["--:"] * (len(first) - 1)], *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    renew(json.loads((DOCS / "benchmarks" / "figures.json").read_text()), DOCS / "scaling.md")
