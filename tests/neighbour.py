"""Something that goes on beside a test."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine, text

T = TypeVar("T")


class Neighbour(Generic[T]):
    """Something that goes on beside the test, in a thread; its errors come out of `result`."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._threads = ThreadPoolExecutor(1)
        self._future = self._threads.submit(work)

    def result(self) -> T:
        """What it returned; fails when it does not end."""
        try:
            return self._future.result(timeout=60)
        finally:
            self._threads.shutdown(wait=False)


@contextmanager
def holding(engine: Engine, *statements: str, **values: Any) -> Iterator[Connection]:
    """A neighbour whose open transaction has done this; rolled back unless it commits."""
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement), values)
        yield connection
        connection.rollback()


def wait_until(true: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Return as soon as it is true; fail when it never is."""
    patience, deadline = threading.Event(), time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain: {what}"
        patience.wait(0.02)


def wait_for_a_waiter(engine: Engine) -> None:
    """Return when some session waits for a lock."""

    def waiting() -> object:
        with engine.begin() as connection:
            return connection.execute(
                text(
                    """SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'"""
                )
            ).scalar()

    wait_until(waiting, "nobody waits for a lock")
