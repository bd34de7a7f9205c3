"""Every order of the steps, depth first: each schedule is played anew along a known beginning.

Orders that differ only by swapping neighbours which cannot notice each other end alike, so one of
them stands for all (sleep sets, as model checkers have them): `commute` says who those are.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from tests.interleaving.actor import Actor
from tests.interleaving.schedule import Choose, Repeated
from tests.interleaving.step import Step

T = TypeVar("T")
Asleep = dict[str, Step]
"""Steps that need not be tried here: an order that takes them first has been played."""


TRIES = 10


class Unrepeatable(Exception):
    """Two who wait for the same row are woken at once, and PostgreSQL lets either have it."""


@dataclass(slots=True)
class Fork:
    """A point at which somebody went: who else could, and who need not."""

    ready: dict[str, Step]
    asleep: Asleep
    went: str = ""

    def awake(self) -> list[str]:
        return [name for name in self.ready if name not in self.asleep]


@dataclass
class Orders:
    """Plays every order once; counts those played, repeated, and not met again."""

    commute: Callable[[Step, Step], bool]
    played: int = 0
    repeated: int = 0
    lost: int = 0
    _path: list[Fork] = field(default_factory=list)

    @property
    def told(self) -> str:
        """The counts in words."""
        return f"{self.played} orders, {self.repeated} repetitions, {self.lost} not met again"

    def every(self, play: Callable[[Choose], T]) -> Iterator[T]:
        """Play them; only those that are no repetition are handed out."""
        while True:
            try:
                result = self._play(play)
            except Repeated:
                self.repeated += 1
            except Unrepeatable:
                self.lost += 1
            else:
                self.played += 1
                yield result
            if not self._next():
                return

    def _play(self, play: Callable[[Choose], T]) -> T:
        for _ in range(TRIES - 1):
            with suppress(Unrepeatable):
                return play(self._along())
        return play(self._along())

    def _next(self) -> bool:
        """Turn to another way at the deepest fork that has one."""
        while self._path:
            fork = self._path[-1]
            fork.asleep[fork.went] = fork.ready[fork.went]
            if awake := fork.awake():
                fork.went = awake[0]
                return True
            self._path.pop()
        return False

    def _along(self) -> Choose:
        """Go as the path says, and from its end on always the first who is awake."""
        place = 0

        def choose(ready: Sequence[Actor]) -> Actor:
            nonlocal place
            steps = {actor.name: actor.at for actor in ready if actor.at}
            if place == len(self._path):
                self._meet(steps)
            went = self._path[place].went
            if went not in steps:
                raise Unrepeatable(f"{went} is not ready, {list(steps)} are")
            place += 1
            return next(actor for actor in ready if actor.name == went)

        return choose

    def _meet(self, steps: dict[str, Step]) -> None:
        """A fork for the first time; Repeated when all who could go are asleep."""
        fork = Fork(steps, self._asleep())
        awake = fork.awake()
        if not awake:
            raise Repeated
        fork.went = awake[0]
        self._path.append(fork)

    def _asleep(self) -> Asleep:
        if not self._path:
            return {}
        last = self._path[-1]
        gone = last.ready[last.went]
        return {
            name: step
            for name, step in last.asleep.items()
            if name != last.went and self.commute(step, gone)
        }


def sampled(play: Callable[[Choose], T], seed: int, count: int) -> Iterator[T]:
    """Play so many orders drawn at random."""
    random = Random(seed)  # noqa: S311 - to be repeated, not to be secret
    for _ in range(count):
        yield play(random.choice)
