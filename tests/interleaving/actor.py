"""An actor: the product's real code in a thread of its own, stopped before every visible step."""

import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sqlalchemy import Connection, Engine, event

from tests.interleaving.step import (
    NONE,
    Kind,
    Step,
    Tables,
    locked_nothing,
    of_commit_and,
    of_end,
    of_statement,
    takes_along,
    visible,
)

PATIENCE = 60.0  # seconds until an actor that nobody lets go on gives up


class Actor:
    """One participant with an engine of its own; it may use several threads, one at a time.

    `at` is the step that it stands before, None while it is on its way or waits in PostgreSQL;
    `passed` are the visible ones before which it was not to stop.
    `changed` is shared by all actors of a stage and told whenever one of them stops or ends.
    """

    def __init__(self, name: str, engine: Engine, changed: threading.Condition) -> None:
        self.name = name
        self.engine = engine
        self.changed = changed
        self.stops_before: Callable[[Step], bool] = visible
        self.at: Step | None = None
        self.passed: list[Step] = []
        self.backend = 0
        self.work: Future[object] | None = None
        self._let_go = threading.Semaphore(0)
        self._held: dict[int, set[str]] = defaultdict(set)
        self._touched: dict[int, set[str]] = defaultdict(set)
        self._thread = ThreadPoolExecutor(1, name)
        event.listen(engine, "before_cursor_execute", self._before_statement)
        event.listen(engine, "after_cursor_execute", self._after_statement)
        event.listen(engine, "commit", self._before_commit)
        event.listen(engine, "rollback", self._before_rollback)

    def begin(self, work: Callable[[Engine], object], stops_before: Callable[[Step], bool]) -> None:
        """Start working, up to the first step that it stops before."""
        self._held.clear()
        self._touched.clear()
        self.passed.clear()
        self.stops_before = stops_before
        self.work = self._thread.submit(work, self.engine)
        self.work.add_done_callback(self._ended)

    def go(self) -> None:
        """Take the step that it stands before."""
        with self.changed:
            self.at = None
        self._let_go.release()

    def let_go(self) -> None:
        """Stop nowhere any more."""
        self.stops_before = lambda _step: False
        if self.at:
            self.go()

    @property
    def done(self) -> bool:
        """Whether its work has ended, well or not."""
        return self.work is not None and self.work.done()

    @property
    def under_way(self) -> bool:
        """Whether it neither stands before a step nor has ended."""
        return self.at is None and not self.done

    @property
    def holds(self) -> Tables:
        """Where it holds rows that others may want."""
        return frozenset().union(*self._held.values())

    @property
    def error(self) -> BaseException | None:
        """How its work ended."""
        return self.work.exception(PATIENCE) if self.work else None

    @property
    def result(self) -> object:
        """What its work returned; None when it ended badly."""
        return self.work.result(PATIENCE) if self.work and self.error is None else None

    def leave(self) -> None:
        """The actor is not needed any more."""
        self._thread.shutdown(wait=False)
        self.engine.dispose()

    def _ended(self, _work: Future[object]) -> None:
        with self.changed:
            self.changed.notify_all()

    def _before_statement(
        self, connection: Connection, _cursor: object, statement: str, *_more: object
    ) -> None:
        if claim := takes_along(statement):
            touched = frozenset(self._touched[backend_of(connection)])
            self._stop(of_commit_and(of_statement(claim, NONE), touched), connection)
            self._forget(connection)
        else:
            self._stop(of_statement(statement, self._held_by(connection)), connection)

    def _after_statement(
        self, connection: Connection, cursor: Any, statement: str, *_more: object
    ) -> None:
        step = of_statement(takes_along(statement) or statement, NONE)
        if not locked_nothing(step, cursor.rowcount):
            self._held[backend_of(connection)] |= step.locks
            self._touched[backend_of(connection)] |= step.locks | step.reads

    def _before_commit(self, connection: Connection) -> None:
        self._end(Kind.COMMIT, connection)

    def _before_rollback(self, connection: Connection) -> None:
        self._end(Kind.ROLLBACK, connection)

    def _end(self, kind: Kind, connection: Connection) -> None:
        touched = frozenset(self._touched[backend_of(connection)])
        self._stop(of_end(kind, touched), connection)
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self._touched.pop(backend_of(connection), None)
        self._held.pop(backend_of(connection), None)

    def _held_by(self, connection: Connection) -> Tables:
        return frozenset(self._held[backend_of(connection)])

    def _stop(self, step: Step, connection: Connection) -> None:
        if not self.stops_before(step):
            if visible(step):
                self.passed.append(step)
            return
        with self.changed:
            assert self.at is None, f"two threads of {self.name} at once: {self.at}, {step}"
            self.backend = backend_of(connection)
            self.at = step
            self.changed.notify_all()
        assert self._let_go.acquire(timeout=PATIENCE), f"nobody let {self.name} go on: {step.label}"


def backend_of(connection: Connection) -> int:
    """The process in PostgreSQL that serves this connection."""
    return int(connection.connection.dbapi_connection.info.backend_pid)  # type: ignore[union-attr]
