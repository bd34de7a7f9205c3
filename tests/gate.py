"""Stops the product before a named statement, silently, until the test lets it go on."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

PATIENCE = 30.0  # seconds until a test that waits for what never comes fails


class Gate:
    """Closed for the first `times` statements that contain `words`; then open for ever."""

    def __init__(self, words: str, times: int = 1) -> None:
        self.words = words
        self._reached = threading.Semaphore(0)
        self._open = threading.Event()
        self._left = times
        self._lock = threading.Lock()

    def wait_reached(self) -> None:
        """Return when a connection stands before the gate."""
        assert self._reached.acquire(timeout=PATIENCE), f"nobody came to {self.words!r}"

    def release(self) -> None:
        """Let whoever waits go on."""
        self._open.set()

    def __call__(self, _c: object, _k: object, statement: str, *_more: object) -> None:
        """SQLAlchemy's hook, called in the thread that is about to run the statement."""
        if self.words not in statement:
            return
        with self._lock:
            if self._left == 0:
                return
            self._left -= 1
        self._reached.release()
        assert self._open.wait(PATIENCE), f"nobody opened the gate before {self.words!r}"


@contextmanager
def gate(engine: Engine, words: str, times: int = 1) -> Iterator[Gate]:
    """A gate in front of an engine's statements; opened at the end, whatever happens."""
    made = Gate(words, times)
    event.listen(engine, "before_cursor_execute", made)
    try:
        yield made
    finally:
        made.release()
        event.remove(engine, "before_cursor_execute", made)


class Sent(list[tuple[int, str]]):
    """Statements in their order, each with the server process that got it."""

    def texts(self) -> list[str]:
        """All of them."""
        return [statement for _backend, statement in self]

    def of_lane(self) -> list[str]:
        """From the first claim on, what the connection of that claim sent."""
        first = next(n for n, (_b, s) in enumerate(self) if "EXECUTE claim_next" in s)
        lane = self[first][0]
        return [statement for backend, statement in self[first:] if backend == lane]


@contextmanager
def statements(engine: Engine) -> Iterator[Sent]:
    """Every statement an engine sends meanwhile, commits and rollbacks among them."""
    sent = Sent()

    def add(connection: Any, statement: str) -> None:
        sent.append((connection.connection.dbapi_connection.info.backend_pid, statement))

    def note(connection: Any, _k: object, statement: str, *_more: object) -> None:
        add(connection, statement)

    def note_commit(connection: Any) -> None:
        add(connection, "COMMIT")

    def note_rollback(connection: Any) -> None:
        add(connection, "ROLLBACK")

    hooks: list[tuple[str, Callable[..., None]]] = [
        ("before_cursor_execute", note),
        ("commit", note_commit),
        ("rollback", note_rollback),
    ]
    for name, hook in hooks:
        event.listen(engine, name, hook)
    try:
        yield sent
    finally:
        for name, hook in hooks:
            event.remove(engine, name, hook)
