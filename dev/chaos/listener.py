"""Hears every topic all the time, so that nothing a broker ever had is forgotten with it."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

_POLL = 0.2  # seconds
_BATCH = 500
_LOOK_AGAIN = 2.0  # seconds


@dataclass(frozen=True)
class Heard:
    """One copy of a message, as it lay in its topic; `log` is the broker's."""

    log: str
    topic: str
    partition: int
    key: str
    value: bytes
    headers: tuple[tuple[str, bytes], ...]

    @property
    def message_id(self) -> str:
        """By which consumers tell copies."""
        return dict(self.headers).get("message-id", b"").decode(errors="replace")


class Listener:
    """All that was heard, in the order of arrival, from one broker after the other."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = set(topics)
        self.heard: list[Heard] = []
        self._places: set[tuple[str, str, int, int]] = set()
        self._lock = threading.Lock()
        self._ear: _Ear | None = None

    def listen(self, bootstrap: str, log: str) -> None:
        """Hear this broker from its beginning; what is known of this `log` is passed over."""
        self.close()
        self._ear = _Ear(self, bootstrap, log)

    def close(self) -> None:
        """Hear no more."""
        if self._ear is not None:
            self._ear.end()
            self._ear = None

    def message_ids(self) -> set[str]:
        """Of all that was heard."""
        with self._lock:
            return {one.message_id for one in self.heard}

    def hear(self, log: str, message: Message) -> None:
        """Keep it, unless it was heard at this place of this log before."""
        place = (log, message.topic() or "", message.partition() or 0, message.offset() or 0)
        with self._lock:
            if place not in self._places:
                self._places.add(place)
                self.heard.append(_heard(log, message))


class _Ear:
    """One connection to one broker, which may be away."""

    def __init__(self, listener: Listener, bootstrap: str, log: str) -> None:
        self._listener, self._log = listener, log
        self._attended: set[tuple[str, int]] = set()
        self._look_again = 0.0
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=self._hear, args=(bootstrap,), name="listener", daemon=True
        )
        self._thread.start()

    def _hear(self, bootstrap: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "chaos",  # demanded by the client; nothing is joined or committed
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "socket.timeout.ms": 6000,
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )
        try:
            while not self._ending.is_set():
                self._attend(consumer)
                for message in consumer.consume(_BATCH, _POLL):
                    if message.error() is None:
                        self._listener.hear(self._log, message)
        finally:
            consumer.close()

    def _attend(self, consumer: Consumer) -> None:
        """Every partition from its beginning: groups and watermarks are not to be relied on."""
        if time.monotonic() < self._look_again:
            return
        try:
            known = consumer.list_topics(timeout=1).topics
        except KafkaException:  # away
            return
        found = {
            (topic, partition)
            for topic in self._listener.topics & known.keys()
            for partition in known[topic].partitions
        }
        new = found - self._attended
        if new:
            consumer.incremental_assign([TopicPartition(*place, OFFSET_BEGINNING) for place in new])
        self._attended |= new
        self._look_again = time.monotonic() + _LOOK_AGAIN

    def end(self) -> None:
        self._ending.set()
        self._thread.join()


def _heard(log: str, message: Message) -> Heard:
    found = message.headers() or []
    pairs = found.items() if isinstance(found, dict) else found
    return Heard(
        log=log,
        topic=message.topic() or "",
        partition=message.partition() or 0,
        key=(message.key() or b"").decode(errors="replace"),
        value=message.value() or b"",
        headers=tuple((name, v if isinstance(v, bytes) else b"") for name, v in pairs),
    )
