"""A fault: what it does, how it is undone."""

from collections.abc import Callable
from dataclasses import dataclass

from dev.chaos.kafkas import APACHE, EMBEDDED
from dev.chaos.stage import Stage

Strike = Callable[[Stage], float | None]
"""Strikes, lets it last, and has undone everything when it returns or raises.

Returns the longest shutdown of a worker in seconds, where it shut any down.
"""


@dataclass(frozen=True)
class Fault:
    """One line of the scorecard."""

    name: str
    does: str
    undone: str
    strike: Strike
    kinds: tuple[str, ...]
    """The brokers on which it means something."""


def fault(
    name: str, *, does: str, undone: str, kinds: tuple[str, ...] = (EMBEDDED, APACHE)
) -> Callable[[Strike], Fault]:
    """Make the function a fault."""
    return lambda strike: Fault(name, does, undone, strike, kinds)
