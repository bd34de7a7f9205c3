"""A model of the cycle: ticks, batches and arrivals, as formulas and as a simulation of each item.

Its inputs are measured (`docs/benchmarks/figures.json`). The formulas are checked by the
simulation, and the simulation by the product itself (the figure `lateness`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """How one worker process works: `rate` in appointments a second, `gap` between two cycles."""

    rate: float
    batch: int = 200
    interval: float = 60.0
    budget: float = 30.0
    catch_up: bool = False
    gap: float = 0.0

    @property
    def cycle(self) -> float:
        """Appointments of a full cycle: its batch, or what it manages within its budget (S4)."""
        return min(self.batch, self.rate * self.budget)

    @property
    def sustained(self) -> float:
        """Appointments a second that it keeps up with for ever.

        A tick that finds the cycle before it at work is skipped (S1). Only a cycle that was ended
        by its batch is followed at once, not one that was ended by its budget.
        """
        seconds = self.cycle / self.rate
        if self.catch_up and self.cycle == self.batch:
            return self.cycle / (seconds + self.gap)
        return self.cycle / (self.interval * max(1, math.ceil(seconds / self.interval)))

    def latest(self, load: float) -> float:
        """Seconds until the last of a steady load has expired: a tick, and its whole cycle.

        With catch-up a cycle may be several batches, each with its gap.
        """
        due = load * self.interval
        gaps = max(0, math.ceil(due / self.batch) - 1) * self.gap
        return self.interval + due / self.rate + gaps


def simulate(pace: Pace, load: float, seconds: float) -> list[float]:
    """How late each appointment expires whose deadline is within so many seconds, evenly spread.

    Goes on until all have expired; a cycle takes, oldest first, those that were due when it began.
    """
    count = int(load * seconds)
    late: list[float] = []
    starts = _ticks(pace)
    start = next(starts)
    while len(late) < count:
        due = min(count, math.ceil(start * load))
        now, first = start, len(late)
        while len(late) < min(due, first + pace.batch) and now < start + pace.budget:
            now += 1 / pace.rate
            late.append(now - len(late) / load)
        if pace.catch_up and len(late) - first == pace.batch:
            start = now + pace.gap
        else:
            start = next(tick for tick in starts if tick >= now)
    return late


def _ticks(pace: Pace) -> Iterator[float]:
    number = 1
    while True:
        yield number * pace.interval
        number += 1


def share(late: list[float], part: float) -> float:
    """Of a hundred the one at this place."""
    return sorted(late)[min(len(late) - 1, int(part * len(late)))]
