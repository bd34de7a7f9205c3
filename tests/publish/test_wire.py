"""What is written is what arrives: key, bytes, headers, partition (section 6, O6, D4)."""

import pytest
from sqlalchemy.exc import IntegrityError

from app.domain.outbox import TOPICS
from app.kafka import Sender
from dev.servers.kafka import Kafka
from tests.publish.conftest import PARTITIONS
from tests.publish.outbox_world import OutboxWorld, everything_on, message_id, sender_to
from tests.world import World

ODD_JSON = [
    '{"b": 1,  "a":2}',
    '{"a":1,"a":2}',
    ' \n\t{"é":"\\u00e9\\u0000", "n":1.0e+2}\n ',
    "[1 ,2]",
    '"«Запись не подтверждена агентом в срок» 🕰"',
]
JAVAS_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""From the tests of Kafka's own Java client."""


def murmur2(key: bytes) -> int:
    """The hash of Java's default partitioner, as an unsigned number."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    found = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        part = int.from_bytes(key[start : start + 4], "little") * multiplier & mask
        part = (part ^ part >> 24) * multiplier & mask
        found = found * multiplier & mask ^ part
    if whole < len(key):
        found = (found ^ int.from_bytes(key[whole:], "little")) * multiplier & mask
    found = (found ^ found >> 13) * multiplier & mask
    return found ^ found >> 15


def test_the_hash_of_this_test_is_javas() -> None:
    assert {key: murmur2(key) for key in JAVAS_HASHES} == {
        key: found % 2**32 for key, found in JAVAS_HASHES.items()
    }


def test_o6_a_message_arrives_as_its_row_and_where_java_would_put_it(
    outbox: OutboxWorld, sender: Sender, broker: Kafka
) -> None:
    """Bare UTF-8 key, the stored text byte for byte, one partition per key: Java's."""
    keys = [*map(str, range(40)), "ключ", "k" * 300]
    sent = {outbox.add(key, payload=ODD_JSON[n % 5]): key for n, key in enumerate(keys)}
    report = outbox.drain(sender)
    assert (report.outcome, report.published) == ("completed", len(keys))
    found = {message_id(r): r for r in everything_on(broker.bootstrap, outbox.topic, PARTITIONS)}
    assert {name: r.key for name, r in found.items()} == sent
    for n, (name, key) in enumerate(sent.items()):
        assert found[name].value == ODD_JSON[n % 5].encode()
        assert found[name].partition == (murmur2(key.encode()) & 0x7FFFFFFF) % PARTITIONS


def test_o6_the_headers_are_the_rows_and_its_message_id_wins(
    outbox: OutboxWorld, sender: Sender, broker: Kafka
) -> None:
    plain = outbox.add(headers='{"correlation-id": "Lauf 1", "traceparent": "00-…-00"}')
    imposter = outbox.add(headers='{"message-id": "another", "absent": null}')
    outbox.drain(sender)
    found = {message_id(r): r for r in everything_on(broker.bootstrap, outbox.topic, PARTITIONS)}
    assert sorted(found[plain].headers) == [
        ("correlation-id", b"Lauf 1"),
        ("message-id", str(plain).encode()),
        ("traceparent", "00-…-00".encode()),
    ]
    assert [name for name, _ in found[imposter].headers].count("message-id") == 1


def test_o6_an_expiry_arrives_as_its_two_documents(world: World, kafka: Kafka) -> None:
    """The whole way, through the law: keys, correlation id and W3C trace context."""
    made = world.appointment()
    cycle = world.run()
    stored = {row["topic"]: row for row in world.messages(made)}
    sender = sender_to(kafka.bootstrap)
    assert OutboxWorld(world.engine, "").drain(sender).published == 2
    sender.close()
    for topic, key in zip(TOPICS, (made.appointment, made.event), strict=True):
        [record] = everything_on(kafka.bootstrap, topic, 3)
        [text] = world.all(
            "SELECT payload::text AS it FROM calendar.outbox_messages WHERE topic = :topic",
            topic=topic,
        )
        assert (record.key, record.value) == (str(key), text["it"].encode())
        headers = {name: value.decode() for name, value in record.headers}
        assert headers["message-id"] == str(stored[topic]["message_id"])
        assert headers["correlation-id"] == cycle.run_id
        version, trace, span, flags = headers["traceparent"].split("-")
        assert (version, len(trace), len(span), flags) == ("00", 32, 16, "00")
        assert trace == cycle.run_id.replace("-", "")


def test_d4_the_database_refuses_a_second_message_for_the_same_change(
    outbox: OutboxWorld,
) -> None:
    first = outbox.add()
    with pytest.raises(IntegrityError, match="one_message_per_change"):
        outbox.execute(
            """INSERT INTO calendar.outbox_messages (message_id, topic, key, payload)
            SELECT message_id, topic, key, payload FROM calendar.outbox_messages
            WHERE message_id = :id""",
            id=first,
        )
