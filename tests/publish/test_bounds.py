"""A slow or silent broker: bounded transactions, nobody else blocked, a stop obeyed (O2, S5)."""

import threading
from itertools import count

import pytest
from sqlalchemy import text

from app import database, relay
from app.kafka import Sender
from app.kafka_options import DELIVERY_SECONDS
from app.report import DrainReport
from dev.servers.mock_kafka import MockKafka
from tests.neighbour import Neighbour
from tests.publish.conftest import MOCKED, OTHER
from tests.publish.outbox_world import OutboxWorld, everything_on, first_occurrences, sender_to

INSERT = """INSERT INTO calendar.outbox_messages (topic, key, payload)
    VALUES ('mocked', 'a', '{}')"""
MINUTE = {"delivery.timeout.ms": "60000"}
"""A sender that would wait far beyond any bound of the drain's."""


def test_s5_a_delivery_ends_before_its_batch_and_a_batch_before_postgresql_ends_it() -> None:
    idle_limit = int(database.IDLE_IN_TRANSACTION_TIMEOUT.removesuffix("s"))
    assert DELIVERY_SECONDS < relay.BATCH_SECONDS < idle_limit - 5


def test_s5_a_drain_gives_a_late_broker_up_by_its_own_deadline_and_blocks_nobody(
    mocked: OutboxWorld, mock: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers come after a minute, the bound is a second; PostgreSQL would end ten idle ones."""
    sent = mocked.add_all(["a", "b", "a"])
    monkeypatch.setattr(relay, "BATCH_SECONDS", 1.0)
    mock.round_trip(60_000)
    sender = sender_to(mock.bootstrap, MINUTE)
    hasty = mocked.impatient("10s")
    over = threading.Event()

    def drain_and_tell() -> DrainReport:
        try:
            return hasty.drain(sender)
        finally:
            over.set()

    drain = Neighbour(drain_and_tell)
    while not over.wait(0.02):
        with mocked.engine.begin() as connection:
            connection.execute(text("SET LOCAL lock_timeout = '100ms'"))
            connection.execute(text(INSERT))
    report = drain.result()
    assert report.outcome == "failed"
    assert report.detail == "Kafka did not acknowledge: no acknowledgement in time."
    assert mocked.unsent()[:3] == sent
    assert {mocked.row(name)["attempts"] for name in sent} == {0}


@pytest.mark.parametrize("silence", ["late", "down"])
def test_s5_a_stop_ends_a_drain_that_waits_for_kafka(
    mocked: OutboxWorld, mock: MockKafka, silence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would end it within the test's patience; what it held never goes out."""
    monkeypatch.setattr(relay, "BATCH_SECONDS", 90.0)
    sent = mocked.add_all(["a", "b", "a"])
    if silence == "down":
        mock.down()
    else:
        mock.round_trip(600_000)
    asked = count()
    sender = sender_to(mock.bootstrap, {"delivery.timeout.ms": "900000"})
    drain = Neighbour(lambda: mocked.drain(sender, stopping=lambda: next(asked) >= 3))
    report = drain.result()
    assert (report.outcome, report.published, report.detail) == ("stopped", 0, None)
    assert mocked.kept(report) == []
    assert mocked.unsent() == sent
    assert {mocked.row(name)["attempts"] for name in sent} == {0}
    mock.up()
    mock.round_trip(0)
    if silence == "down":
        assert everything_on(mock.bootstrap, MOCKED) == []
    mocked.drain_all(sender)


def test_s5_a_stop_ends_a_drain_whose_client_has_no_room_left(
    mocked: OutboxWorld, mock: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "BATCH_SECONDS", 90.0)
    sent = mocked.add_all([str(number) for number in range(50)])
    mock.down()
    asked = count()
    small = {"queue.buffering.max.messages": "10", "delivery.timeout.ms": "900000"}
    sender = sender_to(mock.bootstrap, small)
    drain = Neighbour(lambda: mocked.drain(sender, stopping=lambda: next(asked) >= 3))
    assert drain.result().outcome == "stopped"
    mock.up()
    mocked.drain_all(sender)
    assert len(everything_on(mock.bootstrap, MOCKED)) == len(sent)


def test_s5_a_stop_between_batches_keeps_what_is_published(
    mocked: OutboxWorld, mock: MockKafka
) -> None:
    mocked.add_all([str(number) for number in range(30)])
    sender = sender_to(mock.bootstrap)
    report = mocked.drain(sender, batch_size=10, stopping=lambda: len(mocked.unsent()) <= 20)
    assert (report.outcome, report.published) == ("stopped", 10)
    sender.close()


def test_s4_a_key_with_more_messages_than_a_batch_has_time_for_is_no_failure(
    mocked: OutboxWorld, mock: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wave per message: those that find no time are left to the next pass of the same drain."""
    sender = sender_to(mock.bootstrap)
    mocked.add("first")
    mocked.drain(sender)
    sent = mocked.add_all(["k"] * 25)
    monkeypatch.setattr(relay, "BATCH_SECONDS", 2.0)
    mock.round_trip(100)
    report = mocked.drain(sender)
    sender.close()
    assert (report.outcome, report.published) == ("completed", len(sent)), report.detail


def test_o4_a_partition_without_a_leader_holds_up_nobody_else(
    mocked: OutboxWorld, hasty: Sender, mock: MockKafka
) -> None:
    """With more than a batch of messages; theirs go out in order once it has one again."""
    mock.leaderless(MOCKED)
    line = mocked.add_all(["key"] * 3 + ["another"] * 3)
    others = [mocked.add(topic=OTHER) for _ in range(3)]
    for _ in range(4):
        assert mocked.drain(hasty, batch_size=3).outcome == "failed"
    assert mocked.unsent() == line
    assert {mocked.row(one)["attempts"] for one in line} == {0}
    assert len(everything_on(mock.bootstrap, OTHER)) == len(others)
    mock.lead(MOCKED)
    mocked.drain_all(hasty)
    assert first_occurrences(everything_on(mock.bootstrap, MOCKED), "key") == line[:3]
