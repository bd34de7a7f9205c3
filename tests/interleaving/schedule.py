"""Plays one order of the actors' steps: exactly one step at a time, waits seen in PostgreSQL."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sqlalchemy import Engine

from tests.interleaving.actor import PATIENCE, Actor
from tests.interleaving.step import Step, visible

LOOK_SECONDS = 0.004
"""After so long a step that has not come back is looked at: it may wait for a lock."""
Choose = Callable[[Sequence[Actor]], Actor]
"""Picks who goes next among those who stand before a step."""
Waiting = Callable[[], set[int]]
"""The backends that wait for a lock now."""


class Repeated(Exception):
    """Raised by a `Choose`: this order has been played already, its rest tells nothing new."""


class Went(Enum):
    """What became of a step."""

    THROUGH = auto()
    INTO_A_WAIT = auto()
    OUT_OF_A_WAIT = auto()
    ALONG = auto()
    """Taken together with the step before it."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened in a schedule."""

    actor: str
    step: Step
    went: Went


class Schedule:
    """One order of steps, from the actors' beginning to their end; `events` is what happened."""

    def __init__(self, actors: Sequence[Actor], waiting: Waiting) -> None:
        self.actors = actors
        self.events: list[Event] = []
        self._changed: threading.Condition = actors[0].changed
        self._waiting = waiting
        self._waits: dict[str, Step] = {}

    def play(
        self,
        works: Sequence[Callable[[Engine], object]],
        choose: Choose,
        watch: Callable[[Event], None],
        stops_before: Callable[[Step], bool] = visible,
    ) -> None:
        """Let `choose` decide who goes, step by step; `watch` sees each event once all stand."""
        for actor, work in zip(self.actors, works, strict=True):
            actor.begin(work, stops_before)
        try:
            self._play(choose, watch)
        finally:  # nothing of ours stays behind, whatever was raised
            for actor in self.actors:
                actor.let_go()
            for actor in self.actors:
                actor.error  # noqa: B018 - waits for its end

    def _play(self, choose: Choose, watch: Callable[[Event], None]) -> None:
        self._settle()
        for actor in self.actors:
            actor.passed.clear()
        while ready := self._ready():
            actor = choose(ready)
            step = actor.at
            assert step is not None
            actor.go()
            self._settle()
            for happened in self._happened(actor, step):
                self.events.append(happened)
                watch(happened)

    def _ready(self) -> list[Actor]:
        """Who stands before a step; when all wait for one another, whom PostgreSQL frees."""
        deadline = time.monotonic() + PATIENCE
        while not all(actor.done for actor in self.actors):
            if ready := [actor for actor in self.actors if actor.at]:
                return ready
            assert time.monotonic() < deadline, f"all wait for ever: {self._waits}"
            with self._changed:
                self._changed.wait(0.05)
        return []

    def _settle(self) -> None:
        """Return when everybody stands, has ended, or waits for somebody who stands.

        All who are under way waiting at the same moment: nobody is left who could wake one up.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            with self._changed:
                self._changed.wait_for(self._all_stand, timeout=LOOK_SECONDS)
                under_way = {actor.backend for actor in self.actors if actor.under_way}
            if under_way <= self._waiting_now(under_way):
                return
            assert time.monotonic() < deadline, "a step neither ends nor waits for a lock"

    def _waiting_now(self, under_way: set[int]) -> set[int]:
        return self._waiting() if under_way else set()

    def _all_stand(self) -> bool:
        return not any(actor.under_way and actor.name not in self._waits for actor in self.actors)

    def _happened(self, mover: Actor, step: Step) -> list[Event]:
        if mover.under_way:
            self._waits[mover.name] = step
            found = [Event(mover.name, step, Went.INTO_A_WAIT)]
        else:
            found = [Event(mover.name, step, Went.THROUGH), *_along(mover)]
        for actor in self.actors:
            if actor is not mover and actor.name in self._waits and not actor.under_way:
                waited = self._waits.pop(actor.name)
                found += [Event(actor.name, waited, Went.OUT_OF_A_WAIT), *_along(actor)]
        return found


def _along(actor: Actor) -> list[Event]:
    passed = [Event(actor.name, step, Went.ALONG) for step in actor.passed]
    actor.passed.clear()
    return passed
