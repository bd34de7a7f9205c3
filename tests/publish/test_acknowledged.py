"""Only what the broker has acknowledged becomes published; nothing is lost (O2, O4)."""

from uuid import UUID

import pytest
from confluent_kafka import KafkaError

from app.kafka import Sender
from dev.servers.kafka import Kafka
from dev.servers.mock_kafka import INIT_PRODUCER_ID, MockKafka
from tests.publish.conftest import MOCKED, OTHER, PARTITIONS
from tests.publish.outbox_world import (
    HASTY,
    OutboxWorld,
    everything_on,
    first_occurrences,
    message_id,
    sender_to,
)

KEYS = ["a", "b", "a", "c", "a", "b"]


def assert_all_out_in_order(outbox: OutboxWorld, sent: list[UUID], bootstrap: str) -> None:
    records = everything_on(bootstrap, MOCKED)
    for key in set(KEYS):
        line = [name for name, its_key in zip(sent, KEYS, strict=True) if its_key == key]
        assert first_occurrences(records, key) == line
    assert outbox.unsent() == []


def test_o2_o4_a_broker_that_is_down_publishes_nothing_and_spends_no_try(
    mocked: OutboxWorld, hasty: Sender, mock: MockKafka
) -> None:
    sent = mocked.add_all(KEYS)
    mock.down()
    for _ in range(2):
        report = mocked.drain(hasty)
        assert (report.outcome, report.published, report.refused) == ("failed", 0, 0)
        assert (
            report.detail == "Kafka did not acknowledge: _MSG_TIMED_OUT: Local: Message timed out."
        )
        [kept] = mocked.kept(report)
        assert (kept["outcome"], kept["detail"]) == ("failed", report.detail)
    assert mocked.unsent() == sent
    for name in sent:
        row = mocked.row(name)
        assert (row["attempts"], row["last_error"], row["last_attempt_at"]) == (0, None, None)
    mock.up()
    assert mocked.drain(hasty).published == len(sent)
    assert_all_out_in_order(mocked, sent, mock.bootstrap)


def test_o2_what_a_frozen_broker_took_without_a_word_is_sent_again(
    outbox: OutboxWorld, broker: Kafka
) -> None:
    sender = sender_to(broker.bootstrap, HASTY)
    key = "k"
    sent = [outbox.add(key)]
    assert outbox.drain(sender).published == 1
    sent += outbox.add_all([key] * 3)
    broker.freeze()
    try:
        assert (report := outbox.drain(sender)).outcome == "failed"
        assert report.published == 0
    finally:
        broker.thaw()
    assert outbox.drain(sender).published == 3
    sender.close()
    records = everything_on(broker.bootstrap, outbox.topic, PARTITIONS)
    assert first_occurrences(records, key) == sent


def test_o2_too_few_replicas_publish_nothing_until_they_are_back(
    mocked: OutboxWorld, hasty: Sender, mock: MockKafka
) -> None:
    """The client repeats the attempt by itself; what stays unanswered stays unsent."""
    first = mocked.add("a")
    mock.fail(KafkaError.NOT_ENOUGH_REPLICAS)
    assert mocked.drain(hasty).published == 1
    second = mocked.add("a")
    mock.fail(*[KafkaError.NOT_ENOUGH_REPLICAS] * 1000)
    assert mocked.drain(hasty).outcome == "failed"
    row = mocked.row(second)
    assert (row["published_at"], row["attempts"]) == (None, 0)
    mock.mend()
    assert mocked.drain(hasty).published == 1
    assert first_occurrences(everything_on(mock.bootstrap, MOCKED), "a") == [first, second]


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_o2_a_producer_that_broke_for_good_is_replaced(
    mocked: OutboxWorld, hasty: Sender, mock: MockKafka, code: int
) -> None:
    sent = mocked.add_all(KEYS)
    mock.fail(code)
    report = mocked.drain(hasty)
    assert (report.outcome, report.published, report.refused) == ("failed", 0, 0)
    assert (report.detail or "").startswith("Kafka did not acknowledge: ")
    assert mocked.unsent() == sent
    assert mocked.drain(hasty).published == len(sent)
    assert_all_out_in_order(mocked, sent, mock.bootstrap)


def test_o2_a_fatal_error_leaves_no_acknowledged_half_unmarked(
    mocked: OutboxWorld, hasty: Sender, mock: MockKafka
) -> None:
    """Two requests under way: one is acknowledged, the other breaks the producer."""
    for topic in (MOCKED, OTHER):
        mocked.add(topic=topic)
    mocked.drain(hasty)
    for number in range(10):
        mocked.add(topic=(MOCKED, OTHER)[number % 2])
    mock.round_trip(200)
    mock.fail(KafkaError.NO_ERROR, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    report = mocked.drain(hasty)
    mock.round_trip(0)
    assert (report.outcome, report.published) == ("failed", 5)
    assert len({mocked.row(name)["topic"] for name in mocked.unsent()}) == 1
    assert mocked.drain(hasty).published == 5
    for topic in (MOCKED, OTHER):
        records = everything_on(mock.bootstrap, topic)
        assert len(records) == len({message_id(record) for record in records}) == 6


def test_o2_a_sender_survives_a_broker_that_forgot_everything(
    outbox: OutboxWorld, broker: Kafka
) -> None:
    """After a restart of the in-memory broker the old producer's sequence is worth nothing."""
    broker.topics = {outbox.topic: PARTITIONS}
    sender = sender_to(broker.bootstrap, HASTY)
    outbox.add("k")
    assert outbox.drain(sender).published == 1
    broker.restart()
    later = outbox.add("k")
    reports = [outbox.drain(sender) for _ in range(3)]
    sender.close()
    assert outbox.unsent() == [], reports
    assert later in map(message_id, everything_on(broker.bootstrap, outbox.topic, PARTITIONS))


def test_o2_without_a_producer_id_nothing_is_sent(
    mocked: OutboxWorld, hasty: Sender, mock: MockKafka
) -> None:
    """Idempotence is not given up when the broker does not grant it."""
    name = mocked.add()
    mock.fail(*[KafkaError.COORDINATOR_NOT_AVAILABLE] * 1000, api=INIT_PRODUCER_ID)
    assert mocked.drain(hasty).outcome == "failed"
    assert mocked.unsent() == [name]
    assert everything_on(mock.bootstrap, MOCKED) == []
    mock.mend()
    assert mocked.drain(hasty).published == 1
    assert list(map(message_id, everything_on(mock.bootstrap, MOCKED))) == [name]
