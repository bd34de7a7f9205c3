"""The load: people at a steady pace, in a thread of their own."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import make_url

from app import database
from dev.chaos import records
from dev.chaos.ledger import Ledger
from dev.chaos.people import People

APPLICATION = "chaos-load"


class Load:
    """`rate` operations a second are attempted from now until `end`; the answers in `ledger`."""

    def __init__(self, url: str, *, seed: int, rate: float) -> None:
        address = make_url(url).set(drivername="postgresql+psycopg2")
        address = address.update_query_dict(
            {"application_name": APPLICATION, "options": records.QUIET}
        )
        self.ledger = Ledger()
        self._engine = database.engine(address, 1)
        self._people = People(self._engine, self.ledger, seed)
        self._between = 1 / rate
        self._turn = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ending.is_set():
            with self._turn:
                self._people.next_deed()()
            due = max(due + self._between, time.monotonic() - 1)  # what was missed is not made up
            self._ending.wait(max(0.0, due - time.monotonic()))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing of ours is under way in the block."""
        with self._turn:
            yield

    def end(self) -> None:
        """The operation in hand is the last one."""
        self._ending.set()
        self._thread.join()
        self._engine.dispose()
