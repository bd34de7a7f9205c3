"""Any mixture of writers, publishers, refusals, outages and people: never a loss or a swap (O2-O4).

Hypothesis writes the play; whatever happened in it, in the end everything that nobody gave up lies
on its topic, and each key's first occurrences lie in the order in which they were written.
"""

import os
from contextlib import suppress
from uuid import UUID, uuid4

import pytest
from confluent_kafka import KafkaError
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from app import relay
from app.store import outbox as store
from dev.servers.mock_kafka import MockKafka
from tests.publish.conftest import MOCKED
from tests.publish.outbox_world import (
    HASTY,
    OutboxWorld,
    everything_on,
    first_occurrences,
    sender_to,
)

BREAKS = [
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError._TRANSPORT,
]
HOLD = """SELECT FROM calendar.outbox_messages
    WHERE published_at IS NULL AND set_aside_at IS NULL
    ORDER BY id OFFSET :place LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED"""
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(st.sampled_from("ab"), min_size=2, max_size=6)),
    st.tuples(st.just("drain"), st.sampled_from([1, 2, 3, 1000])),
    st.tuples(st.just("stopped"), st.integers(0, 3)),
    st.tuples(st.just("race"), st.sampled_from([1, 2, 3])),
    st.tuples(st.just("fail"), st.tuples(st.sampled_from(BREAKS), st.integers(1, 4))),
    st.tuples(st.just("outage"), st.just(0)),
    st.tuples(st.just("hold"), st.integers(0, 4)),
    st.tuples(st.just("release"), st.just(0)),
    st.tuples(st.just("requeue"), st.just(0)),
    st.tuples(st.just("discard"), st.just(0)),
)


class Play:
    """One outbox, one broker, one worker's sender, and somebody else who may hold a row."""

    def __init__(self, outbox: OutboxWorld, mock: MockKafka) -> None:
        self.outbox, self.mock = outbox, mock
        self.sender = sender_to(mock.bootstrap, HASTY)
        self.name, self.lines = uuid4().hex, dict[str, list[UUID]]()
        self.holder = outbox.impatient("5min").engine.connect()

    def add(self, keys: list[str]) -> None:
        for key, name in zip(
            keys, self.outbox.add_all([f"{self.name} {key}" for key in keys]), strict=True
        ):
            self.lines.setdefault(f"{self.name} {key}", []).append(name)

    def drain(self, batch_size: int) -> None:
        self.outbox.drain(self.sender, batch_size=batch_size)

    def stopped(self, questions: int) -> None:
        answers = iter([False] * questions)
        self.outbox.drain(self.sender, stopping=lambda: next(answers, True))

    def race(self, batch_size: int) -> None:
        with suppress(AssertionError):  # a drain may fail; what it leaves behind may not be wrong
            self.outbox.drain_side_by_side(self.mock.bootstrap, batch_size=batch_size)

    def fail(self, what: tuple[int, int]) -> None:
        code, times = what
        self.mock.fail(*[code] * times)
        self.drain(1000)

    def outage(self, _nothing: int) -> None:
        self.mock.down()
        self.drain(1000)
        self.mock.up()

    def hold(self, place: int) -> None:
        self.holder.execute(text(HOLD), {"place": place})

    def release(self, _nothing: int) -> None:
        self.holder.rollback()

    def requeue(self, _nothing: int) -> None:
        self.outbox.requeue()

    def discard(self, _nothing: int) -> None:
        with self.outbox.engine.begin() as connection:
            store.discard(connection, store.Choice())

    def end(self) -> None:
        """Everybody goes home, nothing breaks any more, and the publisher has all its time."""
        self.holder.close()
        self.mock.mend()
        self.sender.close()
        self.sender = sender_to(self.mock.bootstrap)
        for _ in range(20):
            self.drain(1000)
            self.requeue(0)
            if not self.outbox.all(f"SELECT FROM calendar.outbox_messages WHERE {store.UNSENT}"):
                break
        self.sender.close()

    def check(self) -> None:
        rows = self.outbox.all(
            "SELECT message_id, published_at, discarded_at FROM calendar.outbox_messages"
        )
        given_up = {row["message_id"] for row in rows if row["discarded_at"]}
        assert all(row["published_at"] or row["discarded_at"] for row in rows), "unsent"
        records = everything_on(self.mock.bootstrap, MOCKED)
        for key, line in self.lines.items():
            found = first_occurrences(records, key)
            assert [name for name in found if name not in given_up] == [
                name for name in line if name not in given_up
            ]
            assert found == [name for name in line if name in found]


@pytest.fixture
def two_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short way to being set aside."""
    monkeypatch.setattr(relay, "MAX_ATTEMPTS", 2)


@settings(
    max_examples=int(os.environ.get("ADVERSARY_EXAMPLES", "8")),
    deadline=None,
    derandomize="ADVERSARY_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),  # to shrink a play of real servers takes minutes
)
@example([("add", ["a", "a", "b"]), ("fail", (KafkaError.INVALID_RECORD, 2)), ("race", 1)])
@example([("add", ["a", "b", "a"]), ("hold", 0), ("race", 2), ("outage", 0), ("release", 0)])
@given(st.lists(steps, min_size=4, max_size=14))
def test_o2_o3_o4_whatever_happens_nothing_is_lost_and_no_key_is_out_of_order(
    mocked: OutboxWorld, two_tries: None, play: list[tuple[str, object]]
) -> None:
    mocked.execute("TRUNCATE calendar.outbox_messages")
    with MockKafka({MOCKED: 1}) as mock:
        stage = Play(mocked, mock)
        for name, argument in play:
            getattr(stage, name)(argument)
        stage.end()
        stage.check()
