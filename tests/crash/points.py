"""The points at which a process can die: before and after whatever it asks PostgreSQL or Kafka.

They are met, not listed: a statement that is added to the product later is a point by itself.
"""

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg2
from confluent_kafka import KafkaError, Message, Producer
from psycopg2.extensions import TRANSACTION_STATUS_IDLE
from sqlalchemy import Connection, Engine, event

from app import kafka
from tests.interleaving.actor import backend_of

Strike = Callable[[int], None]
"""What happens at the chosen point; told the backend that works for the process there."""


_WORDS = re.compile(r"\s*((?:EXECUTE|PREPARE) \w+|\w+)")
_TABLE = re.compile(r"calendar\.(\w+)")


@dataclass(frozen=True, slots=True)
class Point:
    """The so-many-eth time that a process comes to a place."""

    place: str
    time: int


NOWHERE = Point("", 0)


class Points:
    """Notes the points as they are met; at the `chosen` one it strikes, once."""

    def __init__(self, chosen: Point, strike: Strike) -> None:
        self.met: list[Point] = []
        self._times: Counter[str] = Counter()
        self._chosen, self._strike = chosen, strike
        self._backend = 0
        self._lock = threading.Lock()

    def reach(self, place: str, backend: int | None = None) -> None:
        """The process has come to a place, with this backend at work or the one before."""
        with self._lock:
            self._times[place] += 1
            self._backend = backend or self._backend
            point = Point(place, self._times[place])
            self.met.append(point)
        if point == self._chosen:
            self._strike(backend or self._backend)


def die() -> None:
    """As the kernel's out-of-memory killer does it."""
    os.kill(os.getpid(), signal.SIGKILL)


def terminate(url: str, backend: int) -> None:
    """A neighbour ends the backend and waits until it is gone."""
    neighbour = psycopg2.connect(url)
    with neighbour, neighbour.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", (backend,))
    neighbour.close()


def watch_engine(engine: Engine, points: Points) -> None:
    """Before and after each statement, commit and rollback."""

    def before(connection: Connection, _cursor: object, statement: str, *_more: object) -> None:
        points.reach(f"before {_named(statement)}", backend_of(connection))

    def after(connection: Connection, _cursor: object, statement: str, *_more: object) -> None:
        points.reach(f"after {_named(statement)}", backend_of(connection))

    event.listen(engine, "before_cursor_execute", before)
    event.listen(engine, "after_cursor_execute", after)
    for name in ("commit", "rollback"):
        end = getattr(engine.dialect, f"do_{name}")
        setattr(engine.dialect, f"do_{name}", _end(name, end, points))


def _end(name: str, end: Callable[[Any], None], points: Points) -> Callable[[Any], None]:
    """The end of a transaction; where none is open, nothing is sent and nothing can happen."""

    def watched(connection: Any) -> None:
        info = getattr(connection, "dbapi_connection", connection).info
        if info.transaction_status == TRANSACTION_STATUS_IDLE:
            end(connection)
            return
        points.reach(f"before {name}", info.backend_pid)
        end(connection)
        points.reach(f"after {name}", info.backend_pid)

    return watched


def watch_kafka(points: Points) -> None:
    """Before and after each batch, message, acknowledgement and the wait for it."""

    class Watched(Producer):
        """The client of this process."""

        waits = False

        def produce(self, topic: str, **record: Any) -> None:  # type: ignore[override]
            note = record.pop("on_delivery")

            def acknowledged(error: KafkaError | None, message: Message) -> None:
                points.reach("before an acknowledgement is noted")
                note(error, message)
                points.reach("after an acknowledgement is noted")

            self.waits = False
            points.reach("before produce")
            super().produce(topic, on_delivery=acknowledged, **record)
            points.reach("after produce")

        def flush(self, timeout: float = -1) -> int:
            if self.waits:  # how often it looks again is a matter of time, no point of its own
                return super().flush(timeout)
            self.waits = True
            points.reach("before flush")
            left = super().flush(timeout)
            points.reach("after flush")
            return left

    kafka.Producer = Watched  # type: ignore[attr-defined]
    send = kafka.Sender.send

    def watched(*arguments: Any) -> Any:
        points.reach("before a wave is sent")
        verdicts = send(*arguments)
        points.reach("after a wave is sent")
        return verdicts

    kafka.Sender.send = watched  # type: ignore[assignment, method-assign]


def _named(statement: str) -> str:
    """A statement by its verb and first table."""
    words, table = _WORDS.match(statement), _TABLE.search(statement)
    verb = words[1] if words else statement
    return f"{verb} {table[1]}" if table and " " not in verb else verb
