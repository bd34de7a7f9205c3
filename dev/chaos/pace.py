"""How long things last: the shortened schedule of the product, and a fault's durations."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

INTERVAL = 2.0
"""Seconds from tick to tick and from drain to drain, instead of 60 and 10."""
RATE = 10.0
"""Operations a second that the load attempts."""


@dataclass(frozen=True)
class Pace:
    """Full: what such faults last in life. Short: scaled down, so that all fit into minutes."""

    short: bool

    @property
    def budget(self) -> int:
        """Seconds after which a cycle takes no further item; a hung one is killed 60 s later."""
        return 5 if self.short else 30

    @property
    def patience(self) -> float:
        """Seconds that a recovery may take before it counts as none."""
        return self.budget + 60 + 60

    def hold(self, *, full: float, short: float) -> None:
        """Let a fault last."""
        time.sleep(short if self.short else full)

    def times(self, *, full: int, short: int) -> range:
        """Let a fault come again."""
        return range(short if self.short else full)

    def beats(self, seconds: float, *, full: float, short: float) -> Iterator[None]:
        """Let a fault last, with something to be done every so many seconds."""
        end = time.monotonic() + (short if self.short else full)
        while time.monotonic() < end:
            yield
            time.sleep(seconds)
