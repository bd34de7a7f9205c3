"""Who is refused when Kafka says no: the guilty, never their neighbours (O4)."""

import time

import pytest
from confluent_kafka import KafkaError

from app import relay
from app.kafka import Answer, Record, Sender
from app.kafka_options import DELIVERY_SECONDS
from app.relay import MAX_ATTEMPTS
from dev.servers.mock_kafka import MockKafka
from tests.publish.conftest import MOCKED, OTHER
from tests.publish.outbox_world import OutboxWorld, everything_on, message_id, sender_to

MESSAGE_CODES = [
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError.POLICY_VIOLATION,
]


def test_o4_a_refused_batch_is_sent_again_in_parts_and_the_innocent_pay_no_try(
    mocked: OutboxWorld, quick: Sender, mock: MockKafka
) -> None:
    sent = []
    for code in MESSAGE_CODES:
        batch = mocked.add_all([f"{code}-{n}" for n in range(9)])
        mock.fail(code)
        report = mocked.drain(quick)
        assert (report.outcome, report.published, report.refused) == ("completed", 9, 0), code
        assert {mocked.row(name)["attempts"] for name in batch} == {1}
        sent += batch
    assert sorted(map(message_id, everything_on(mock.bootstrap, MOCKED))) == sorted(sent)


def test_o4_who_is_refused_alone_is_guilty_and_its_neighbour_goes_out(
    mocked: OutboxWorld, quick: Sender, mock: MockKafka
) -> None:
    for code in MESSAGE_CODES:
        guilty, neighbour = mocked.add_all([f"guilty-{code}", f"neighbour-{code}"])
        behind = mocked.add(f"guilty-{code}")
        mock.fail(code, code)
        report = mocked.drain(quick)
        assert (report.outcome, report.published, report.refused) == ("completed", 1, 1)
        assert mocked.row(neighbour)["published_at"] is not None
        row = mocked.row(guilty)
        assert (row["attempts"], row["set_aside_at"]) == (1, None)
        assert row["last_error"].startswith(KafkaError(code).name())
        assert mocked.row(behind)["attempts"] == 0
        mocked.execute("DELETE FROM calendar.outbox_messages")


@pytest.mark.parametrize(
    "code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART]
)
def test_o4_a_topic_that_refuses_everything_keeps_no_other_topic_waiting(
    mocked: OutboxWorld, quick: Sender, mock: MockKafka, code: int
) -> None:
    """All of it is set aside in the end; requeued once the cause is mended it goes out in order."""
    mock.topic_error(MOCKED, code)
    bad = mocked.add_all(["a", "b", "a"])
    good = [mocked.add(topic=OTHER) for _ in range(3)]
    report = mocked.drain(quick)
    assert (report.outcome, report.published, report.refused) == ("completed", 3, 2)
    assert mocked.unsent() == bad
    assert sorted(map(message_id, everything_on(mock.bootstrap, OTHER))) == sorted(good)
    for _ in range(MAX_ATTEMPTS - 1):
        report = mocked.drain(quick)
    assert (report.refused, report.set_aside) == (2, 2)
    assert (mocked.drain(quick).refused, mocked.row(bad[2])["attempts"]) == (0, 0)
    mock.topic_error(MOCKED, KafkaError.NO_ERROR)
    mocked.requeue()
    assert mocked.drain(quick).published == 3
    line = [message_id(r) for r in everything_on(mock.bootstrap, MOCKED) if r.key == "a"]
    assert line == [bad[0], bad[2]]


def test_o4_a_topic_whose_requests_are_refused_spends_a_try_of_each_message_in_it(
    mocked: OutboxWorld, quick: Sender, mock: MockKafka
) -> None:
    sent = mocked.add_all(["a", "b", "a"])
    mock.fail(KafkaError.TOPIC_EXCEPTION)
    assert mocked.drain(quick).refused == 2
    assert [mocked.row(name)["attempts"] for name in sent] == [1, 1, 0]


def suspects(count: int) -> list[Record]:
    return [Record(MOCKED, str(n).encode(), b"{}", {}) for n in range(count)]


def test_s5_o4_a_stop_ends_the_search_for_the_guilty(quick: Sender, mock: MockKafka) -> None:
    """Nobody is convicted and nothing is called unanswered; no further request is begun."""
    quick.send(suspects(1), time.monotonic() + 60)
    asked = iter([False])
    mock.fail(KafkaError.INVALID_RECORD)
    verdicts = quick.send(suspects(200), time.monotonic() + 60, lambda: next(asked, True))
    found = {(verdict.answer, verdict.shared) for verdict in verdicts}
    assert (Answer.REFUSED, True) in found
    assert found <= {(Answer.REFUSED, True), (Answer.ACKNOWLEDGED, False)}


def test_o4_a_search_that_runs_out_of_time_convicts_nobody_and_holds_no_transaction(
    mocked: OutboxWorld, mock: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL itself ends a transaction that outlives the bound: here after ten seconds."""
    sent = mocked.add_all([str(n) for n in range(100)])
    monkeypatch.setattr(relay, "BATCH_SECONDS", 3.0)
    sender = sender_to(mock.bootstrap)
    sender.send([Record(OTHER, b"k", b"{}", {})], time.monotonic() + 60)
    mock.round_trip(300)
    mock.fail(KafkaError.INVALID_RECORD)
    report = mocked.impatient("10s").drain(sender)
    assert (report.outcome, report.refused) == ("completed", 0), report.detail
    assert mocked.unsent() == sent
    assert {mocked.row(name)["attempts"] for name in sent} == {0}
    mock.round_trip(0)
    mocked.drain_all(sender)
    sender.close()


def test_o4_a_search_among_many_guilty_ones_gets_ahead_in_every_drain(
    mocked: OutboxWorld, mock: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time for some forty requests, where all of 128 are guilty."""
    mocked.add_all([str(number) for number in range(128)])
    monkeypatch.setattr(relay, "BATCH_SECONDS", DELIVERY_SECONDS + 1.5)
    monkeypatch.setattr(relay, "MAX_ATTEMPTS", 2)
    sender = sender_to(mock.bootstrap)
    mock.round_trip(20)
    mock.fail(*[KafkaError.INVALID_RECORD] * 1000)
    first, second = mocked.drain(sender), mocked.drain(sender)
    sender.close()
    assert (first.outcome, second.outcome) == ("completed", "completed")
    assert min(first.refused, second.set_aside) > 0
