"""A figure: what is divided by what, how far it should reach, and what was measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dev.bench.stage import Stage


class StructureError(Exception):
    """Something was not done, or not once, or not by the index: no matter of time."""


@dataclass(frozen=True)
class Samples:
    """Repeated measurements of one thing."""

    values: Sequence[float]
    unit: str = "/s"

    @property
    def median(self) -> float:
        """The one in the middle."""
        return median(self.values)


@dataclass(frozen=True)
class Ratio:
    """One thing divided by another, round by round."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        """The one in the middle."""
        return median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Half of the rounds lie between these: the noise."""
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        low, _, high = quantiles(self.values, n=4, method="inclusive")
        return low, high


@dataclass(frozen=True)
class Reach:
    """How far a figure should go."""

    limit: float | None = None
    at_least: bool = True
    unit: str = ""

    def met(self, value: float) -> bool | None:
        """Whether it does; None when it is only stated."""
        if self.limit is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        """For the table."""
        if self.limit is None:
            return "stated"
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}{self.unit}"


@dataclass(frozen=True)
class Measured:
    """What one figure came to."""

    ratio: Ratio
    samples: Mapping[str, Samples]
    notes: Sequence[str] = ()
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Lines to be drawn: points by the line's name."""


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    name: str
    says: str
    reach: Reach
    measure: "Callable[[Stage], Measured]"


def at_least(limit: float) -> Reach:
    """The more, the better."""
    return Reach(limit)


def at_most(limit: float, unit: str = "") -> Reach:
    """The less, the better."""
    return Reach(limit, at_least=False, unit=unit)


STATED = Reach()
