"""Reads topics back from their beginning, without a group: for tests and the demo.

A consumer group takes seconds to join and, on the embedded broker, may be handed nothing; its
high watermarks are wrong too. So every partition is assigned by hand and read until enough came.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from dev.servers.process import ServerError

_POLL = 0.2  # seconds
_BATCH = 1000


@dataclass(frozen=True)
class Record:
    """One message as it lies in its topic; an absent key is "", an absent value b""."""

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes
    headers: list[tuple[str, bytes]]


def read_topics(
    bootstrap: str, topics: Iterable[str], *, expected: int, timeout: float
) -> list[Record]:
    """Read every partition of `topics` until `expected` records came or `timeout` s passed.

    What came is returned, in order within a partition: fewer than `expected` after the timeout,
    or more when they lay in the same batch. To prove that there is no record too many, expect
    one more than there should be. A topic that does not exist is waited for.
    Raises ServerError when the broker refuses.
    """
    deadline = time.monotonic() + timeout
    records: list[Record] = []
    with _consumer(bootstrap) as consumer:
        _assign(consumer, set(topics), deadline)
        while len(records) < expected and time.monotonic() < deadline:
            records.extend(_record(message) for message in consumer.consume(_BATCH, _POLL))
    return records


@contextmanager
def _consumer(bootstrap: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",  # demanded by the client; nothing is joined or committed
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def _assign(consumer: Consumer, topics: set[str], deadline: float) -> None:
    while time.monotonic() < deadline:
        try:
            known = consumer.list_topics(timeout=_POLL * 5).topics
        except KafkaException:
            continue
        if topics <= known.keys():
            consumer.assign(
                [
                    TopicPartition(topic, partition, OFFSET_BEGINNING)
                    for topic in topics
                    for partition in known[topic].partitions
                ]
            )
            return
        time.sleep(_POLL)


def _record(message: Message) -> Record:
    error = message.error()
    if error is not None:
        raise ServerError(f"kafka: cannot read: {error.str()}")
    return Record(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        key=(message.key() or b"").decode(),
        value=message.value() or b"",
        headers=_headers(message),
    )


def _headers(message: Message) -> list[tuple[str, bytes]]:
    found = message.headers() or []
    pairs = found.items() if isinstance(found, dict) else found
    return [(name, value if isinstance(value, bytes) else b"") for name, value in pairs]
