"""The outbox in the tests' words: what is written, how it drains, and what lies on a topic."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from sqlalchemy import Engine, text

from app import database, facts, kafka, kafka_options
from app.publish import drain
from app.report import DrainOptions, DrainReport
from app.settings import KafkaSettings
from app.store import outbox
from dev.servers.consumer import Record, read_topics
from tests.gate import PATIENCE
from tests.neighbour import Neighbour
from tests.world import World

MARK = "mark"
NO_OPTIONS: Mapping[str, str] = {}
QUICK = {"topic.metadata.propagation.max.ms": "300"}
"""Soon believes that a topic does not exist."""
HASTY = {**QUICK, "delivery.timeout.ms": "1500"}
"""Gives up soon, for brokers that never answer; a producer's first message takes 0.5 s."""


class OutboxWorld(World):
    """One database's outbox."""

    def __init__(self, engine: Engine, topic: str) -> None:
        super().__init__(engine)
        self.topic = topic

    def add(
        self,
        key: str | None = None,
        *,
        topic: str | None = None,
        payload: str = "{}",
        headers: str = "{}",
    ) -> UUID:
        """Write one message; its message id."""
        [row] = self.all(
            """INSERT INTO calendar.outbox_messages (topic, key, payload, headers)
            VALUES (:topic, :key, CAST(:payload AS json), CAST(:headers AS jsonb))
            RETURNING message_id""",
            topic=topic or self.topic,
            key=key or str(uuid4()),
            payload=payload,
            headers=headers,
        )
        return UUID(str(row["message_id"]))

    def add_all(self, keys: Sequence[str]) -> list[UUID]:
        """Write one message for each of these keys, in this order; their message ids."""
        with self.engine.begin() as connection:
            found = connection.execute(
                text(
                    """INSERT INTO calendar.outbox_messages (topic, key, payload)
                    SELECT :topic, key, '{}' FROM unnest(CAST(:keys AS text[]))
                        WITH ORDINALITY AS line (key, place) ORDER BY place
                    RETURNING id, message_id"""
                ),
                {"topic": self.topic, "keys": list(keys)},
            )
            return [row.message_id for row in sorted(found, key=lambda row: row.id)]

    def row(self, message_id: UUID) -> dict[str, Any]:
        """One message's state."""
        return self.one(
            """SELECT topic, attempts, last_error, last_attempt_at, published_at, set_aside_at,
                discarded_at
            FROM calendar.outbox_messages WHERE message_id = :id""",
            id=message_id,
        )

    def unsent(self) -> list[UUID]:
        """What is not published, oldest first."""
        rows = self.all(
            """SELECT message_id FROM calendar.outbox_messages
            WHERE published_at IS NULL ORDER BY id"""
        )
        return [row["message_id"] for row in rows]

    def drain(
        self,
        sender: kafka.Sender,
        *,
        stopping: Callable[[], bool] = lambda: False,
        tell: facts.Tell = facts.nobody,
        **options: Any,
    ) -> DrainReport:
        """One drain, as the task runs it."""
        return drain(
            self.engine,
            sender,
            DrainOptions(**options),
            str(uuid4()),
            stopping=stopping,
            tell=tell,
        )

    def drain_all(self, sender: kafka.Sender) -> None:
        """Drains until nothing is unsent; some of them may fail."""
        for _ in range(20):
            self.drain(sender)
            if not self.unsent():
                return
        pytest.fail(f"still unsent: {len(self.unsent())}")

    def drain_side_by_side(self, bootstrap: str, publishers: int = 2, **options: Any) -> None:
        """Drains that begin at once, each with its own engine and its own sender."""
        ready = threading.Barrier(publishers, timeout=PATIENCE)

        def publish(number: int) -> DrainReport:
            outbox = OutboxWorld(database.engine(self.engine.url, 20 + number), self.topic)
            sender = sender_to(bootstrap)
            ready.wait()
            report = outbox.drain(sender, **options)
            sender.close()
            outbox.engine.dispose()
            return report

        for one in [Neighbour(partial(publish, number)) for number in range(publishers)]:
            report = one.result()
            assert report.outcome == "completed", report.detail

    def requeue(self) -> int:
        """Put back whatever is set aside."""
        with self.engine.begin() as connection:
            return outbox.requeue(connection, outbox.Choice())

    def impatient(self, limit: str) -> "OutboxWorld":
        """The same outbox, where PostgreSQL ends a transaction that idles for longer."""
        options = f"-c idle_in_transaction_session_timeout={limit}"
        url = self.engine.url.update_query_dict({"options": options})
        return OutboxWorld(database.engine(url), self.topic)

    def kept(self, report: DrainReport) -> list[dict[str, Any]]:
        """The kept record of a drain, if there is one."""
        return self.all(
            "SELECT * FROM calendar.job_runs WHERE run_id = :run_id", run_id=report.run_id
        )


def sender_to(bootstrap: str, options: Mapping[str, str] = NO_OPTIONS) -> kafka.Sender:
    """The product's sender."""
    settings = KafkaSettings(kafka_bootstrap_servers=bootstrap)
    return kafka.Sender({**kafka_options.configuration(settings), **options})


def new_topic(bootstrap: str, partitions: int, name: str | None = None) -> str:
    """A topic of the test's own, on a broker that it shares."""
    name = name or f"topic-{uuid4()}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        made.result(PATIENCE)
    return name


def everything_on(bootstrap: str, topic: str, partitions: int = 1) -> list[Record]:
    """All that lies on the topic: a mark put behind it tells how much there is to read."""
    places: list[int] = []

    def note(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        places.append((message.offset() or 0) + 1)

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 0})
    for partition in range(partitions):
        producer.produce(topic, key=MARK, partition=partition, on_delivery=note)
    producer.flush(PATIENCE)
    assert len(places) == partitions, "the broker does not take the marks"
    found = read_topics(bootstrap, [topic], expected=sum(places), timeout=PATIENCE)
    assert len(found) == sum(places), "the topic ends before its mark"
    return [record for record in found if record.key != MARK]


def message_id(record: Record) -> UUID:
    """The stable id by which consumers drop repeats (O6)."""
    return UUID(dict(record.headers)["message-id"].decode())


def first_occurrences(records: Sequence[Record], key: str) -> list[UUID]:
    """A key's messages as a consumer sees them who drops repeats."""
    return list(dict.fromkeys(message_id(record) for record in records if record.key == key))
