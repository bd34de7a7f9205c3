"""Measuring side by side: in turns, so that whatever else the machine does meets all alike."""

from collections.abc import Callable, Mapping

from dev.bench.figure import Ratio, Samples

Measure = Callable[[], float]


def side_by_side(
    rounds: int, sides: Mapping[str, Measure], *, unit: str = "/s", warm_up: int = 1
) -> dict[str, Samples]:
    """Measure each side once a round, each round beginning with another one.

    The first `warm_up` rounds (caches, plans, connections) do not count.
    """
    names = list(sides)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warm_up, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            value = sides[name]()
            if number >= 0:
                found[name].append(value)
    return {name: Samples(values, unit) for name, values in found.items()}


def divide(above: Samples, below: Samples) -> Ratio:
    """Round by round."""
    return Ratio([one / other for one, other in zip(above.values, below.values, strict=True)])
