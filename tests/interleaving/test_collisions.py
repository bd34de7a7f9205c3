"""Deadlock, without barriers: real threads on the same rows at once (S6, R1-R5)."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import cycle, islice
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from app import database, operations
from app.domain.law import Refusal
from app.expire import run_cycle
from app.report import CycleOptions
from app.store import errors
from tests.interleaving.invariants import broken
from tests.interleaving.rows import look
from tests.interleaving.stage import PATIENT
from tests.world import Made, World

WAVES = 25
WAVE = 20
COLLISIONS = WAVES * WAVE
CYCLES = 2

Operation = Callable[[Engine, Made, datetime], object]
OPERATIONS: dict[str, Operation] = {
    "confirm": lambda engine, made, now: operations.confirm(engine, made.appointment, now),
    "decline": lambda engine, made, now: operations.decline(engine, made.appointment, now),
    "cancel": lambda engine, made, now: operations.cancel(
        engine, made.appointment, made.investor, now
    ),
    "book": lambda engine, made, now: operations.book(engine, made.slot, uuid4(), now),
}


class Collisions:
    """Four kinds of users and two cycles at work on the same appointments."""

    def __init__(self, world: World) -> None:
        self.world = world
        url = world.engine.url.update_query_dict({"options": PATIENT})
        self.engine = database.engine(url, 20)
        self.ended: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def wave(self, threads: ThreadPoolExecutor, made: Sequence[Made]) -> None:
        """All of them at once, each user beginning at another place; until the last has ended."""
        users = [
            threads.submit(self._use, name, _from(made, number * WAVE // len(OPERATIONS)))
            for number, name in enumerate(OPERATIONS)
        ]
        cycles = [threads.submit(self._expire) for _ in range(CYCLES)]
        for work in users + cycles:
            work.result()

    def _use(self, name: str, made: Iterator[Made]) -> None:
        for one in made:
            self._note(name, self._outcome(name, one))

    def _outcome(self, name: str, made: Made) -> str:
        try:
            OPERATIONS[name](self.engine, made, self.world.now())
        except Refusal:
            return "refused"
        except Exception as error:  # noqa: BLE001 - whatever a user may get to see
            failure = errors.failure(error)
            return f"{failure.rule} {failure.sqlstate}"
        return "done"

    def _expire(self) -> None:
        report = run_cycle(self.engine, CycleOptions(connections=2), str(uuid4()))
        self._note("expiry", report.outcome)
        for _ in range(report.expired):
            self._note("expiry", "done")
        for _ in range(report.failed):
            self._note("expiry", "failed")

    def _note(self, name: str, outcome: str) -> None:
        with self._lock:
            self.ended[name, outcome] += 1


def _from(made: Sequence[Made], place: int) -> Iterator[Made]:
    return islice(cycle(made), place, place + len(made))


@pytest.fixture
def collisions(world: World) -> Iterator[Collisions]:
    made = Collisions(world)
    yield made
    made.engine.dispose()


def test_s6_in_500_collisions_of_each_kind_no_user_sees_a_deadlock_and_no_item_fails(
    collisions: Collisions,
) -> None:
    world = collisions.world
    ids: set[UUID] = set()
    with ThreadPoolExecutor(len(OPERATIONS) + CYCLES) as threads:
        for _ in range(WAVES):
            made = [world.appointment() for _ in range(WAVE)]
            ids |= {one.appointment for one in made}
            collisions.wave(threads, made)
    ended = collisions.ended
    for name in OPERATIONS:
        assert ended[name, "done"] + ended[name, "refused"] == COLLISIONS, ended
    assert ended["expiry", "completed"] == WAVES * CYCLES, ended
    assert ended["expiry", "failed"] == 0, ended
    world.run()
    with world.engine.connect() as connection:
        rows = look(connection)
    assert broken(rows) == []
    left = {rows.appointments[one]["status"] for one in ids}
    assert left <= {"Expired", "Confirmed", "Declined", "Cancelled"}
    met = [name for name in (*OPERATIONS, "expiry") if ended[name, "done"]]
    assert len(met) > 3, f"they hardly met: {ended}"
