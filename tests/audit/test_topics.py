"""`verify --kafka`: the topics against the outbox, on a real broker (O2, O3, O6)."""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer
from sqlalchemy import event

from app.audit import AuditOptions, TopicsError, run, topics
from app.domain.outbox import APPOINTMENT_CANCELLED, EVENT_STATUS_CHANGED, TOPICS
from app.kafka import Sender
from app.kafka_options import configuration
from app.publish import drain
from app.report import DrainOptions
from app.settings import KafkaSettings
from app.store import audit_topics
from app.store.audit_topics import Beginning
from dev.servers.kafka import Kafka
from tests.audit.lawful import Found, LawfulWorld
from tests.neighbour import Neighbour
from tests.world import HOUR

VALUES = AuditOptions().values
Value = str | bytes | None
Headers = Mapping[str, Value] | Sequence[tuple[str, Value]]


class TopicsWorld(LawfulWorld):
    """A lawful world whose messages are on the broker's topics."""

    broker: Kafka

    @property
    def settings(self) -> KafkaSettings:
        return KafkaSettings(kafka_bootstrap_servers=self.broker.bootstrap)

    def send_all(self) -> None:
        """Drain until nothing is left, as the task does."""
        sender = Sender(configuration(self.settings))
        assert drain(self.engine, sender, DrainOptions(), str(uuid4())).outcome == "completed"
        sender.close()
        assert self.all("SELECT FROM calendar.outbox_messages WHERE published_at IS NULL") == []

    def compare(self) -> list[Found]:
        """What the topics' checks find."""
        found = []
        with self.engine.connect() as connection:
            for result in topics.verify(connection, self.settings, VALUES, lambda _count: None):
                assert result.error is None, (result.check.name, result.error)
                check = result.check
                found += [
                    Found(check.severity, check.rule, check.name, one.id, one.found)
                    for one in result.findings
                ]
        return found

    def put(
        self,
        topic: str = APPOINTMENT_CANCELLED,
        *,
        key: str = "k",
        value: str | None = "{}",
        headers: Headers = (),
        milliseconds: int = 0,
        partition: int = -1,
    ) -> None:
        """A record that somebody else has produced."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        producer.produce(
            topic,
            key=key,
            value=value,
            headers=list(headers.items() if isinstance(headers, Mapping) else headers),
            timestamp=milliseconds,
            partition=partition,
        )
        assert producer.flush(30) == 0

    def put_row(self, message_id: UUID) -> None:
        """One message of the outbox, as the publisher sends it."""
        row = self.one(
            """SELECT topic, key, payload::text AS payload, headers, message_id
            FROM calendar.outbox_messages WHERE message_id = :id""",
            id=message_id,
        )
        headers = {**row["headers"], "message-id": str(message_id)}
        self.put(row["topic"], key=row["key"], value=row["payload"], headers=headers)


@pytest.fixture
def sent(lawful: LawfulWorld, kafka: Kafka) -> TopicsWorld:
    """Every message of the lawful world is on its topic."""
    world = TopicsWorld(lawful.engine, lawful.names)
    world.broker = kafka
    world.execute("UPDATE calendar.outbox_messages SET published_at = NULL")
    world.send_all()
    return world


def one(found: list[Found]) -> Found:
    [only] = found
    return only


def test_what_was_published_is_there_and_nothing_else(sent: TopicsWorld) -> None:
    assert sent.compare() == []


def test_every_partition_is_read_to_its_end(
    sent: TopicsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):  # no partition is empty, and most hold several
        sent.book(ago=25 * HOUR)
    assert sent.run().expired == 20
    sent.send_all()
    monkeypatch.setattr(topics, "POLLED", 1)
    assert sent.compare() == []


def test_o2_a_published_message_that_is_not_on_its_topic_is_missing(sent: TopicsWorld) -> None:
    late = sent.book(ago=25 * HOUR)
    assert sent.run().expired == 1
    sent.publish()  # marked, never sent
    rows = sent.messages_of_id(late.id)
    assert {(f.rule, f.severity, f.check, f.id) for f in sent.compare()} == {
        ("O2", "violation", "published-is-on-its-topic", str(rows[topic])) for topic in TOPICS
    }


def test_o2_what_is_not_published_yet_is_not_missed(sent: TopicsWorld) -> None:
    sent.book(ago=25 * HOUR)
    assert sent.run().expired == 1
    assert sent.compare() == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("key = 'other'", "another key"),
        ("payload = (payload::text || ' ')::json", "other bytes"),
        ("""headers = headers || '{"correlation-id": "x"}'""", "other headers"),
        ("""headers = headers || '{"more": "x"}'""", "other headers"),
        ("headers = headers - 'traceparent'", "other headers"),
    ],
)
def test_o6_a_record_that_differs_from_its_row_is_found(
    sent: TopicsWorld, change: str, found: str
) -> None:
    changed = sent.messages_of("expired")[APPOINTMENT_CANCELLED]
    sent.execute(f"UPDATE calendar.outbox_messages SET {change} WHERE message_id = :id", id=changed)
    finding = one(sent.compare())
    assert (finding.rule, finding.check) == ("O6", "record-is-the-message")
    assert finding.id == str(changed)
    assert finding.found.startswith(f"{found} in {APPOINTMENT_CANCELLED}[")


def test_o6_a_record_on_the_other_topic_is_found_and_missed_on_its_own(sent: TopicsWorld) -> None:
    moved = sent.messages_of("expired")[APPOINTMENT_CANCELLED]
    sent.execute(
        "UPDATE calendar.outbox_messages SET topic = :topic WHERE message_id = :id",
        topic=EVENT_STATUS_CHANGED,
        id=moved,
    )
    found = {finding.check: finding for finding in sent.compare()}
    assert found.keys() == {"published-is-on-its-topic", "record-is-the-message"}
    assert found["record-is-the-message"].found.startswith("another topic in")


def test_o6_a_copy_that_differs_is_found_and_one_that_does_not_is_lawful(sent: TopicsWorld) -> None:
    """At least once: copies are identical in id, key and bytes."""
    again = sent.messages_of("declined")[EVENT_STATUS_CHANGED]
    sent.put_row(again)
    assert sent.compare() == []
    sent.put(EVENT_STATUS_CHANGED, key="other", headers={"message-id": str(again)})
    assert one(sent.compare()).found.startswith("another key")


def test_o6_a_copy_without_a_value_is_found(sent: TopicsWorld) -> None:
    again = sent.messages_of("declined")[EVENT_STATUS_CHANGED]
    row = sent.one("SELECT key FROM calendar.outbox_messages WHERE message_id = :id", id=again)
    sent.put(EVENT_STATUS_CHANGED, key=row["key"], value=None, headers={"message-id": str(again)})
    assert one(sent.compare()).found.startswith("other bytes")


@pytest.mark.parametrize(
    "more", [("message-id", None), ("traceparent", b"\xff"), ("more", b"nul\0")], ids=str
)
def test_o6_headers_that_no_row_can_have_are_found(
    sent: TopicsWorld, more: tuple[str, Value]
) -> None:
    again = sent.messages_of("declined")[EVENT_STATUS_CHANGED]
    row = sent.one(
        """SELECT topic, key, payload::text AS payload, headers
        FROM calendar.outbox_messages WHERE message_id = :id""",
        id=again,
    )
    name, value = more
    headers = [*row["headers"].items(), ("message-id", str(again)), (name, value or str(again))]
    sent.put(row["topic"], key=row["key"], value=row["payload"], headers=headers)
    assert one(sent.compare()).found.startswith("other headers")


STRANGE: dict[str, dict[str, str | bytes | None]] = {
    "an id that no row has": {"message-id": str(uuid4())},
    "an id that is none": {"message-id": "no id"},
    "an id that is no text": {"message-id": b"\xff\xfe"},
    "an empty id": {"message-id": None},
}


@pytest.mark.parametrize("headers", STRANGE.values(), ids=STRANGE)
def test_o6_a_record_with_our_header_that_the_outbox_does_not_know_is_found(
    sent: TopicsWorld, headers: dict[str, str | bytes | None]
) -> None:
    sent.put(headers=headers)
    finding = one(sent.compare())
    assert (finding.rule, finding.check) == ("O6", "record-is-known")
    assert finding.found.startswith("a record that the outbox does not know")


def test_a_record_without_our_header_is_somebody_elses(sent: TopicsWorld) -> None:
    sent.put(headers={"correlation-id": "x"})
    sent.put()
    assert sent.compare() == []


def test_o5_a_record_older_than_retention_is_excused(sent: TopicsWorld) -> None:
    """Its row has left the outbox."""
    now = time.time() * 1000
    for days in (7.1, 6.96):  # with the hour in between for clocks
        sent.put(headers={"message-id": str(uuid4())}, milliseconds=int(now - days * 86_400_000))
    assert sent.compare() == []
    sent.put(headers={"message-id": str(uuid4())}, milliseconds=int(now - 6.9 * 86_400_000))
    assert one(sent.compare()).check == "record-is-known"


def line(sent: TopicsWorld, count: int) -> list[UUID]:
    """Messages of one key, marked as published."""
    rows = sent.all(
        """INSERT INTO calendar.outbox_messages (topic, key, payload, published_at)
        SELECT :topic, 'k', '{}', now() FROM generate_series(1, :count) RETURNING message_id""",
        topic=APPOINTMENT_CANCELLED,
        count=count,
    )
    return [row["message_id"] for row in rows]


def test_o3_a_message_overtaken_within_its_key_is_found(sent: TopicsWorld) -> None:
    first, second, third = line(sent, 3)
    for message_id in (second, first, third):
        sent.put_row(message_id)
    finding = one(sent.compare())
    assert (finding.rule, finding.check, finding.id) == ("O3", "records-in-order", str(first))


def test_o3_only_first_occurrences_count(sent: TopicsWorld) -> None:
    first, second = line(sent, 2)
    for message_id in (first, second, first):
        sent.put_row(message_id)
    assert sent.compare() == []


def test_what_the_topic_itself_has_dropped_is_a_warning(sent: TopicsWorld) -> None:
    """A partition that begins later, or in which nothing is left, excuses what is older."""
    sent.execute("UPDATE calendar.outbox_messages SET message_id = gen_random_uuid()")
    begins = sent.now() - HOUR
    rows = sent.all("SELECT message_id, topic FROM calendar.outbox_messages ORDER BY id")
    sent.execute("UPDATE calendar.outbox_messages SET published_at = :at", at=begins - HOUR)
    with sent.engine.connect() as connection, audit_topics.gathering(connection) as read_from:
        audit_topics.complete(connection, [Beginning(APPOINTMENT_CANCELLED, begins)])
        findings = [
            (result.check.name, finding.id)
            for result in run(connection, audit_topics.CHECKS, {**VALUES, "read_from": read_from})
            for finding in result.findings
        ]
    dropped = {APPOINTMENT_CANCELLED: "published-was-on-its-topic"}
    assert sorted(findings) == sorted(
        (dropped.get(row["topic"], "published-is-on-its-topic"), str(row["message_id"]))
        for row in rows
    )


def test_an_emptied_partition_excuses_all_of_its_topic(sent: TopicsWorld) -> None:
    sent.execute("UPDATE calendar.outbox_messages SET message_id = gen_random_uuid()")
    with sent.engine.connect() as connection, audit_topics.gathering(connection) as read_from:
        audit_topics.complete(connection, [Beginning(topic, None) for topic in TOPICS])
        [is_on, was_on, *_] = run(
            connection, audit_topics.CHECKS[:2], {**VALUES, "read_from": read_from}
        )
    assert (is_on.violations, was_on.violations) == (0, 0)
    assert (is_on.findings.count, was_on.warnings > 0) == (0, True)


def test_a_partition_that_begins_later_has_been_shortened(sent: TopicsWorld) -> None:
    now = sent.now()
    reading = topics.Reading(
        sent.settings,
        now,
        starts={("a", 0): 0, ("a", 1): 7, ("b", 0): 7},
        first={("a", 0): now, ("a", 1): now},
    )
    assert reading.shortened() == [Beginning("a", now), Beginning("b", None)]


def test_records_are_kept_as_hashes_batch_by_batch(
    sent: TopicsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded memory: no more than a batch of hashes is with us, and no content goes anywhere."""
    monkeypatch.setattr(topics, "BATCH", 4)
    sizes: list[int] = []
    told: list[int] = []

    def note(_c: object, _k: object, statement: str, values: Any, *_more: object) -> None:
        if statement.startswith("INSERT INTO pg_temp.topic_records"):
            sizes.append(len(values["c0"]))
            assert "AppointmentId" not in json.dumps(values, default=str)

    event.listen(sent.engine, "before_cursor_execute", note)
    with sent.engine.connect() as connection:
        list(topics.verify(connection, sent.settings, VALUES, told.append))
    everything = len(sent.all("SELECT FROM calendar.outbox_messages"))
    assert (max(sizes), sum(sizes)) == (4, everything)
    assert told == list(range(4, everything + 1, 4))


def test_its_tables_are_gone_afterwards_even_after_a_failure(
    sent: TopicsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_reading: object) -> Iterator[None]:
        raise TopicsError("no")

    with sent.engine.connect() as connection:
        list(topics.verify(connection, sent.settings, VALUES, lambda _count: None))
        list(topics.verify(connection, sent.settings, VALUES, lambda _count: None))
        monkeypatch.setattr(topics.Reading, "records", fail)
        with pytest.raises(TopicsError):
            list(topics.verify(connection, sent.settings, VALUES, lambda _count: None))
        monkeypatch.undo()
        list(topics.verify(connection, sent.settings, VALUES, lambda _count: None))


def test_publishing_meanwhile_raises_no_alarm(sent: TopicsWorld) -> None:
    """Missing is only what was acknowledged before the reading began; unknown is asked after it."""
    over = threading.Event()

    def keep_publishing() -> None:
        while not over.is_set():
            for _ in range(5):
                sent.book(ago=25 * HOUR)
            sent.run()
            sent.send_all()

    traffic = Neighbour(keep_publishing)
    try:
        found = [sent.compare() for _ in range(3)]
    finally:
        over.set()
        traffic.result()
    assert found == [[]] * 3
    assert len(sent.messages()) > 30


def test_under_traffic_without_a_pause_the_reading_ends_a_minute_after_its_beginning(
    sent: TopicsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a partition never says that it ends."""
    monkeypatch.setitem(topics._CONSUMERS, "enable.partition.eof", "false")
    monkeypatch.setattr(topics, "PATIENCE", 2)
    ahead = int((time.time() + 90) * 1000)
    *places, last = [(topic, partition) for topic in TOPICS for partition in range(3)]
    for topic, partition in places:
        sent.put(topic, milliseconds=ahead, partition=partition)
    with pytest.raises(TopicsError, match=rf"{last[0]}\[{last[1]}\]\.$"):
        sent.compare()
    sent.put(last[0], milliseconds=ahead, partition=last[1])
    assert sent.compare() == []


def test_a_broker_that_is_away_is_one_sentence(sent: TopicsWorld) -> None:
    sent.broker.close()
    with pytest.raises(TopicsError, match="Kafka does not let the topics be read"):
        sent.compare()


def test_a_broker_that_never_ends_a_partition_is_no_empty_topic(
    sent: TopicsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "PATIENCE", 0.5)
    monkeypatch.setattr(topics.Reading, "ended", lambda *_: False)
    with pytest.raises(TopicsError, match=r"does not say that it ends: pin\.calendar"):
        sent.compare()


def test_a_topic_that_is_not_there_is_empty(lawful: LawfulWorld, tmp_path: Any) -> None:
    world = TopicsWorld(lawful.engine, lawful.names)
    with Kafka(tmp_path) as world.broker:
        missing = [finding.id for finding in world.compare()]
    rows = world.all("SELECT message_id FROM calendar.outbox_messages")
    assert sorted(missing) == sorted(str(row["message_id"]) for row in rows)


def test_the_consumer_gets_no_option_of_the_producers(sent: TopicsWorld) -> None:
    given = topics.options(sent.settings)
    assert {"acks", "enable.idempotence", "partitioner", "linger.ms"}.isdisjoint(given)
    assert given["bootstrap.servers"] == sent.broker.bootstrap
    assert given["enable.auto.commit"] == "false"
