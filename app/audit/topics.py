"""The audit of the topics: reads them from their beginning, record by record, beside the workers.

No group is joined and nothing is committed. A partition is read when the broker has said that it
ends, at or behind the place where it ended when the reading began; who never says so is an error,
not an empty topic.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage
from sqlalchemy import Connection

from app import kafka_options
from app.audit import Result, TopicsError, run
from app.domain.outbox import TOPICS
from app.settings import KafkaSettings
from app.store import audit_topics
from app.store.audit_topics import Beginning, TopicRecord

OUR_HEADER = "message-id"
BATCH = 5_000
"""So many hashes are in memory before they go to the database."""
POLLED = 500  # records at most that the client hands over at once, content and all
SECONDS = 10.0  # for an answer about topics
PATIENCE = 30.0  # for the next record
SKEW = timedelta(minutes=1)
"""Behind a record dated so long after the beginning nothing is looked for: traffic never ends."""

_PRODUCERS_ONLY = ("acks", "enable.idempotence", "partitioner", "linger.ms", "delivery.timeout.ms")
_CONSUMERS = {
    "client.id": "calendar.verify",
    "group.id": "calendar.verify",  # the client demands one; it is never joined
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "earliest",
    "enable.partition.eof": "true",
    "queued.max.messages.kbytes": "16384",  # what is fetched ahead of us
}
Place = tuple[str, int]


def options(settings: KafkaSettings) -> dict[str, str]:
    """The client's options of the publisher, for reading."""
    publishers = kafka_options.configuration(settings).items()
    return {**{name: v for name, v in publishers if name not in _PRODUCERS_ONLY}, **_CONSUMERS}


def verify(
    connection: Connection,
    settings: KafkaSettings,
    values: Mapping[str, object],
    tell: Callable[[int], None],
) -> Iterator[Result]:
    """Read both topics, telling how many records so far, then compare them with the outbox."""
    with audit_topics.gathering(connection) as begun:
        reading = Reading(settings, begun)
        batch: list[TopicRecord] = []
        for count, record in enumerate(reading.records(), 1):
            if record is not None:
                batch.append(record)
            if len(batch) >= BATCH:
                audit_topics.add(connection, batch)
                batch.clear()
            if count % BATCH == 0:
                tell(count)
        if batch:
            audit_topics.add(connection, batch)
        audit_topics.complete(connection, reading.shortened())
        yield from run(connection, audit_topics.CHECKS, {**values, "read_from": begun})


@dataclass
class Reading:
    """One reading of both topics."""

    settings: KafkaSettings
    begun: datetime
    ends: dict[Place, int] = field(default_factory=dict)
    starts: dict[Place, int] = field(default_factory=dict)
    first: dict[Place, datetime | None] = field(default_factory=dict)

    def records(self) -> Iterator[TopicRecord | None]:
        """All of them, once each; None for one that is not ours."""
        try:
            with closing(Consumer(options(self.settings))) as consumer:
                self.assign(consumer)
                yield from self.read(consumer)
        except KafkaException as error:
            cause = error.args[0].name() if error.args else "no answer"
            raise TopicsError(f"Kafka does not let the topics be read ({cause}).") from None

    def assign(self, consumer: Consumer) -> None:
        """Every partition that is there, from its beginning; a topic that is not there is empty."""
        known = consumer.list_topics(timeout=SECONDS).topics
        places = [
            TopicPartition(topic, number, OFFSET_BEGINNING)
            for topic in TOPICS
            if topic in known
            for number in known[topic].partitions
        ]
        for place in places:
            start, end = consumer.get_watermark_offsets(place, timeout=SECONDS, cached=False)
            self.starts[place.topic, place.partition] = start
            self.ends[place.topic, place.partition] = end
        consumer.assign(places)

    def read(self, consumer: Consumer) -> Iterator[TopicRecord | None]:
        """Poll until every partition has ended."""
        left, patience = set(self.ends), time.monotonic() + PATIENCE
        while left:
            messages = consumer.consume(POLLED, 0.5)
            if messages:
                patience = time.monotonic() + PATIENCE
            elif time.monotonic() > patience:
                where = ", ".join(f"{topic}[{partition}]" for topic, partition in sorted(left))
                raise TopicsError(f"Kafka gives no more, and does not say that it ends: {where}.")
            for message in messages:
                place = (str(message.topic()), int(message.partition() or 0))
                if message.error() is None:
                    yield self.record(message, place)
                if self.ended(message, place):
                    left.discard(place)

    def record(self, message: KafkaMessage, place: Place) -> TopicRecord | None:
        """What is kept of it, if it is ours."""
        self.first.setdefault(place, recorded_at(message))
        return topic_record(message)

    def ended(self, message: KafkaMessage, place: Place) -> bool:
        """Whether its partition ends here, or this came long after we began: traffic goes on."""
        error, offset = message.error(), int(message.offset() or 0)
        if error is None:
            dated = recorded_at(message)
            late = dated is not None and dated > self.begun + SKEW
            return late and offset + 1 >= self.ends[place]
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own code
            raise KafkaException(error)
        return offset >= self.ends[place]

    def shortened(self) -> list[Beginning]:
        """Partitions whose first records Kafka has removed."""
        return [
            Beginning(place[0], self.first.get(place))
            for place, start in self.starts.items()
            if start > 0
        ]


def recorded_at(message: KafkaMessage) -> datetime | None:
    """When it was produced, by the producer's or the broker's clock."""
    kind, milliseconds = message.timestamp()
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if kind and milliseconds else None


def topic_record(message: KafkaMessage) -> TopicRecord | None:
    """The record as the database compares it; None without our header."""
    found = message.headers() or []
    pairs = list(found.items() if isinstance(found, dict) else found)
    ours = [value for name, value in pairs if name == OUR_HEADER]
    if not ours:
        return None
    value = message.value()
    return TopicRecord(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        key=_bytes(message.key()),
        message_id=_uuid(_bytes(ours[0])),
        value_hash=None if value is None else hashlib.sha256(_bytes(value) or b"").digest(),
        headers=_document(pairs),
        recorded_at=recorded_at(message),
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _uuid(value: bytes | None) -> UUID | None:
    try:
        return UUID((value or b"").decode())
    except ValueError:
        return None


def _document(pairs: list[tuple[str, str | bytes | None]]) -> str | None:
    """Headers as a JSON object; None when they are none: a name twice, or no text."""
    try:
        texts = {name: None if v is None else (_bytes(v) or b"").decode() for name, v in pairs}
    except UnicodeDecodeError:
        return None
    document = json.dumps(texts)
    return document if len(texts) == len(pairs) and "\\u0000" not in document else None
