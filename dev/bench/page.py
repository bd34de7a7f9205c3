"""`docs/benchmarks/`: the page with its plots, and `figures.json` with everything measured.

A run renews the figures that it measured; the others stay, each with its own day and load.
"""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dev.bench import plot, scaling
from dev.bench.catalogue import FIGURES
from dev.bench.stage import APACHE, EMBEDDED, SETTINGS
from dev.bench.table import markdown

_SERVER = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
_INTRODUCTION = f"""# Benchmarks

<!-- Made by `make bench ARGS="--write docs/benchmarks"`: do not edit. -->

Each figure divides two things that were measured in turns, in the same run, on the same servers:
machines differ, and so does one machine from minute to minute. Given is the median of the rounds
and, as its noise, what half of them lie between. PostgreSQL waits for the disk at every commit
({_SERVER}); Kafka acknowledges with acks=all to an idempotent producer.
The broker is the embedded one, and in lines that end in -apache Apache Kafka (`--kafka apache`).
What stands in the way of those that were missed, and what was refused, says
[decision 7](../decisions/0007-lanes-in-cycle-and-drain.md).
"""


def write(directory: Path, command: str, rows: Sequence[Mapping[str, Any]], kind: str) -> None:
    """Renew the measured figures (as `Row.as_json` has them), the page and the plots."""
    directory.mkdir(parents=True, exist_ok=True)
    kept = directory / "figures.json"
    known: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    day = datetime.now(UTC).date().isoformat()
    made = {"command": command, "day": day, "cores": os.cpu_count()}
    fresh = {_shown(row["figure"], kind): {**row, **made} for row in rows}
    known |= json.loads(json.dumps(fresh, default=str))
    both = [_shown(name, broker) for name in FIGURES for broker in (EMBEDDED, APACHE)]
    known = {name: known[name] for name in both if name in known}
    kept.write_text(json.dumps(known, indent=1) + "\n")
    parts = [
        _INTRODUCTION,
        markdown([[name, *row["cells"][1:]] for name, row in known.items()]),
        "\n## What was measured\n",
        *(_sides(name, row) for name, row in known.items()),
    ]
    for name, row in known.items():
        if row["series"]:
            (directory / f"{name}.svg").write_text(plot.draw(row["cells"][1], row["series"]))
            parts.append(f"\n![{row['cells'][1]}]({name}.svg)\n\n{_below(name, row)}")
    (directory / "README.md").write_text("\n".join(parts) + "\n")
    if (page := directory.parent / "scaling.md").exists() and known.keys() >= scaling.INPUTS:
        scaling.renew(known, page)


def _shown(figure: str, kind: str) -> str:
    """A figure's name on the page; with the real Apache Kafka it is another one."""
    return figure if kind == EMBEDDED else f"{figure}-{kind}"


def _sides(name: str, row: Mapping[str, Any]) -> str:
    before, after = row["load"]
    where = f"{row['day']}, {row['cores']} cores, load average {before:.1f} to {after:.1f}"
    return f"* **{name}** ({where}): {'; '.join(row['sides'])}. `{row['command']}`"


def _below(shown: str, row: Mapping[str, Any]) -> str:
    """A plot's own words: how to draw it again, its limit, and its noise."""
    name, _says, reach, _ratio, noise, verdict = row["cells"]
    only = name if shown == name else f"{name} --kafka {APACHE}"
    limit = "" if reach == verdict else f", limit {reach}: {verdict}"
    return f"`python -m dev.bench --only {only}`; half of the rounds {noise}{limit}"
