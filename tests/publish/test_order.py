"""First occurrences of a key's messages arrive in order, whoever publishes (O3)."""

from collections import Counter
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from app.kafka import Sender
from app.relay import MAX_ATTEMPTS
from app.store.outbox import Row
from app.waves import waves
from dev.servers.mock_kafka import MockKafka
from tests.gate import gate
from tests.neighbour import Neighbour, holding, wait_for_a_waiter
from tests.publish.conftest import MOCKED
from tests.publish.outbox_world import OutboxWorld, everything_on, first_occurrences, message_id
from tests.world import World

LARGE = '"' + "x" * 2_000_000 + '"'
LOCK = "SELECT FROM calendar.outbox_messages WHERE message_id = :id FOR NO KEY UPDATE"


def claimed(number: int, topic: str, key: str) -> Row:
    return Row(number, str(uuid4()), topic, key, "{}", {}, 0, previous=None)


@given(st.lists(st.tuples(st.sampled_from("tu"), st.sampled_from("abcd")), max_size=30))
def test_o3_a_wave_holds_a_key_once_and_a_keys_messages_stay_in_line(
    lines: list[tuple[str, str]],
) -> None:
    rows = [claimed(number, *line) for number, line in enumerate(lines)]
    found = [[(row.id, (row.topic, row.key)) for row in wave] for wave in waves(rows)]
    flat = [pair for wave in found for pair in wave]
    assert sorted(flat) == list(enumerate(lines))
    assert all(max(Counter(line for _, line in wave).values()) == 1 for wave in found)
    for line in set(lines):
        assert [number for number, its in flat if its == line] == [
            number for number, its in enumerate(lines) if its == line
        ]
    assert len(found) == max(Counter(lines).values(), default=0)


def test_o3_a_row_that_another_publisher_holds_blocks_exactly_the_later_ones_of_its_key(
    mocked: OutboxWorld, quick: Sender, mock: MockKafka
) -> None:
    keys = ["a", "b", "a", "b", "a", "c", "a"]
    sent = mocked.add_all(keys)
    with holding(mocked.engine, LOCK, id=sent[2]):
        assert mocked.drain(quick).published == 4
        assert mocked.unsent() == [sent[2], sent[4], sent[6]]
    assert mocked.drain(quick).published == 3
    found = everything_on(mock.bootstrap, MOCKED)
    assert first_occurrences(found, "a") == [sent[0], sent[2], sent[4], sent[6]]
    assert len(found) == len(keys)


def test_o3_what_had_to_wait_for_another_publisher_goes_out_in_the_same_drain(
    mocked: OutboxWorld, quick: Sender
) -> None:
    held, *_ = mocked.add_all(["a", "a", "b"])
    with (
        holding(mocked.engine, LOCK, id=held) as other,
        gate(mocked.engine, "SET published_at") as mark,
    ):
        drain = Neighbour(lambda: mocked.drain(quick))
        mark.wait_reached()
        other.rollback()
        mark.release()
        assert drain.result().published == 3


def held(outbox: OutboxWorld, head: UUID, _sender: Sender) -> Connection:
    """Another publisher has the head in its hands, until the end of the test."""
    connection = outbox.engine.connect()
    connection.execute(text(LOCK), {"id": head})
    return connection


def refused(outbox: OutboxWorld, head: UUID, sender: Sender) -> None:
    """Kafka refuses the head now, and will again."""
    outbox.execute(
        "UPDATE calendar.outbox_messages SET payload = CAST(:p AS json) WHERE message_id = :id",
        p=LARGE,
        id=head,
    )


def set_aside(outbox: OutboxWorld, head: UUID, sender: Sender) -> None:
    """Kafka has refused the head for good."""
    refused(outbox, head, sender)
    for _ in range(MAX_ATTEMPTS):
        outbox.drain(sender, batch_size=100)
    assert outbox.row(head)["set_aside_at"] is not None


@pytest.mark.parametrize("cause", [held, refused, set_aside])
def test_o4_more_than_a_batch_of_one_blocked_key_stops_no_other_key(
    mocked: OutboxWorld,
    quick: Sender,
    cause: Callable[[OutboxWorld, UUID, Sender], Connection | None],
) -> None:
    blocked = mocked.add_all(["blocked"] * 250)
    holder = cause(mocked, blocked[0], quick)
    for _ in range(2):
        mocked.add_all([str(n) for n in range(30)])
        assert mocked.drain(quick, batch_size=100).published == 30
    assert mocked.unsent() == blocked
    if holder:
        holder.close()


def test_o3_o4_two_publishers_and_a_first_message_that_fails(
    mocked: OutboxWorld, quick: Sender, mock: MockKafka
) -> None:
    """Three of one key, thirty of others: its order holds, the others flow, nobody twice."""
    keys = [str(n) for n in range(30)]
    keys[3:3] = keys[15:15] = keys[28:28] = ["k"]
    sent = mocked.add_all(keys)
    line = [name for name, key in zip(sent, keys, strict=True) if key == "k"]
    refused(mocked, line[0], quick)
    mocked.drain_side_by_side(mock.bootstrap, batch_size=7)
    assert mocked.unsent() == line
    assert mocked.row(line[0])["attempts"] >= 1
    assert [mocked.row(name)["attempts"] for name in line[1:]] == [0, 0]
    mocked.execute(
        "UPDATE calendar.outbox_messages SET payload = '{}' WHERE message_id = :id", id=line[0]
    )
    mocked.drain_all(quick)
    found = everything_on(mock.bootstrap, MOCKED)
    assert first_occurrences(found, "k") == line
    assert sorted(map(message_id, found)) == sorted(sent)


def test_o3_an_earlier_message_that_is_not_yet_committed_cannot_be_overtaken(
    world: World, mocked: OutboxWorld, quick: Sender, mock: MockKafka
) -> None:
    """Who writes a message of a key holds the aggregate's row: the second writer has to wait."""
    made = world.appointment()
    key = str(made.appointment)
    lock = "SELECT FROM calendar.appointments WHERE id = :appointment FOR NO KEY UPDATE"
    write = """INSERT INTO calendar.outbox_messages (topic, key, payload)
        VALUES (:topic, CAST(:appointment AS text), '{}')"""
    values = {"appointment": key, "topic": MOCKED}

    def second() -> None:
        with holding(mocked.engine, lock, write, **values) as writer:
            writer.commit()

    with holding(mocked.engine, lock, write, **values) as first:
        rival = Neighbour(second)
        wait_for_a_waiter(mocked.engine)
        assert mocked.drain(quick).published == 0
        first.commit()
    rival.result()
    line = mocked.unsent()
    assert mocked.drain(quick).published == 2
    assert first_occurrences(everything_on(mock.bootstrap, MOCKED), key) == line
