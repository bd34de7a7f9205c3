"""Stops the product before a named statement, silently, until the test lets it go on."""

import threading
from collections.abc import Iterator
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


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """Every statement an engine sends meanwhile, commits and rollbacks among them."""
    sent: list[str] = []

    def note(_c: object, _k: object, statement: str, *_more: object) -> None:
        sent.append(statement)

    def note_commit(_connection: Any) -> None:
        sent.append("COMMIT")

    def note_rollback(_connection: Any) -> None:
        sent.append("ROLLBACK")

    hooks = [("before_cursor_execute", note), ("commit", note_commit), ("rollback", note_rollback)]
    for name, hook in hooks:
        event.listen(engine, name, hook)
    try:
        yield sent
    finally:
        for name, hook in hooks:
            event.remove(engine, name, hook)
