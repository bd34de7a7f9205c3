"""The table: a line per figure, for a terminal and for the documentation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from dev.bench.figure import Figure, Measured

TITLES = ("figure", "what is divided", "reach", "measured", "half of the rounds", "verdict")


@dataclass(frozen=True)
class Row:
    """One figure as it came out; `load` is the machine's load average before and after."""

    figure: Figure
    measured: Measured
    load: tuple[float, float]

    @property
    def verdict(self) -> str:
        """Whether it reaches what it should."""
        met = self.figure.reach.met(self.measured.ratio.median)
        return "stated" if met is None else "reached" if met else "missed"

    @property
    def cells(self) -> tuple[str, ...]:
        """In the order of the titles."""
        unit, ratio = self.figure.reach.unit, self.measured.ratio
        low, high = ratio.quartiles
        return (
            self.figure.name,
            self.figure.says,
            str(self.figure.reach),
            f"{ratio.median:.2f}{unit}",
            f"{low:.2f} to {high:.2f}",
            self.verdict,
        )

    @property
    def sides(self) -> list[str]:
        """What was divided, in its own units."""
        return [
            f"{name} {side.median:,.4g}{side.unit}" for name, side in self.measured.samples.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """Everything, unrounded; and as the page says it."""
        return {
            "figure": self.figure.name,
            "cells": self.cells,
            "sides": [*self.sides, *self.measured.notes],
            "load": self.load,
            **asdict(self.measured),
            "ratio": self.measured.ratio.median,
            "rounds": self.measured.ratio.values,
        }


def table(rows: Sequence[Row]) -> Table:
    """For eyes: what is missed is red."""
    made = Table(box=None, padding=(0, 1, 0, 0))
    for title in TITLES:
        if title != "what is divided":
            made.add_column(title, justify="left" if title in ("figure", "verdict") else "right")
    for row in rows:
        name, _, *others = row.cells
        made.add_row(name, *others, style="bold red" if row.verdict == "missed" else "")
    return made


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """For the documentation."""
    whole = [TITLES, ("---", "---", "--:", "--:", "--:", "---"), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in whole)
