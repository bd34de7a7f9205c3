"""A socket timeout for psycopg2, which has none (S5: no statement without a bound).

PostgreSQL's own limits live on the server. When it is frozen, or something between acknowledges
every byte and never answers, TCP sees a healthy line and libpq waits for ever. A thread looks at
the waits of this process and shuts the socket of one that is too long: libpq then reports a lost
connection, which is handled anyway.
"""

import os
import socket
import time
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

from psycopg2 import InterfaceError, OperationalError, extensions

LOOK_SECONDS = 1.0

P = ParamSpec("P")
R = TypeVar("R")


class TimedConnection(extensions.connection):
    """A connection whose every wait for the server ends.

    Its waits are counted in looks of the watching thread, not by a clock: a process that was
    stopped for a while has not waited. Connecting itself is bounded by `connect_timeout`.
    """

    seconds: float | None = None
    """How long a wait may be; None: for ever."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = TimedCursor
        self._lock = Lock()
        self._looks: int | None = None  # None: it does not wait
        self._gave_up = False
        self._socket = os.fstat(self.fileno()).st_ino
        _watch_over(self)

    def commit(self) -> None:
        """See psycopg2."""
        self.timed(super().commit)

    def rollback(self) -> None:
        """See psycopg2."""
        self.timed(super().rollback)

    def timed(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call what talks to the server; `OperationalError` when it does not answer in time."""
        with self._lock:
            self._looks = 0
        try:
            return call(*args, **kwargs)
        except OperationalError as lost:
            with self._lock:
                gave_up = self._gave_up
            if not gave_up:
                raise
            raise OperationalError(f"no answer within {self.seconds:.0f} s") from lost
        finally:
            with self._lock:
                self._looks = None

    def look(self) -> None:
        """Shut the socket of a wait that was seen too often."""
        with self._lock:  # nobody stops waiting, and closes the socket, in between
            if self._looks is None or self.seconds is None:
                return
            self._looks += 1
            if self._looks * LOOK_SECONDS > self.seconds and not self._gave_up:
                self._gave_up = self._shut()

    def _shut(self) -> bool:
        try:
            with socket.socket(fileno=os.dup(self.fileno())) as line:
                if os.fstat(line.fileno()).st_ino != self._socket:
                    return False  # libpq has closed ours this very moment, and it is another's
                line.shutdown(socket.SHUT_RDWR)
        except (OSError, InterfaceError):
            return False  # it is gone already: the wait has just ended
        return True


class TimedCursor(extensions.cursor):
    """What talks to the server, of all that the product and SQLAlchemy use."""

    connection: TimedConnection

    def execute(self, *args: Any) -> None:
        """See psycopg2."""
        self.connection.timed(super().execute, *args)

    def executemany(self, *args: Any) -> None:
        """See psycopg2."""
        self.connection.timed(super().executemany, *args)

    def fetchmany(self, *args: Any) -> list[Any]:
        """See psycopg2; a named cursor asks the server."""
        return self.connection.timed(super().fetchmany, *args)

    def fetchall(self) -> list[Any]:
        """See psycopg2; a named cursor asks the server."""
        return self.connection.timed(super().fetchall)

    def fetchone(self) -> Any:
        """See psycopg2; a named cursor asks the server."""
        return self.connection.timed(super().fetchone)

    def close(self) -> None:
        """See psycopg2; a named cursor tells the server."""
        self.connection.timed(super().close)


class _Watch(Thread):
    """Looks at every connection of this process for as long as there is one."""

    def __init__(self) -> None:
        super().__init__(name="socket-timeout", daemon=True)

    def run(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            with _lock:
                watched = list(_watched)
            for connection in watched:
                connection.look()


_lock = Lock()
_watched: WeakSet[TimedConnection] = WeakSet()
_watch: _Watch | None = None


def _watch_over(connection: TimedConnection) -> None:
    global _watch  # noqa: PLW0603 - one thread a process
    with _lock:
        _watched.add(connection)
        if _watch is None:
            _watch = _Watch()
            _watch.start()


def _forget_after_fork() -> None:
    """A child has no thread of its parent's, and never waits on its parent's connections."""
    global _lock, _watch
    _lock, _watch = Lock(), None
    _watched.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
