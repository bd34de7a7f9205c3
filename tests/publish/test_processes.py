"""Publishers as real processes: side by side, and killed at the worst moment (O2, O3)."""

import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from sqlalchemy import Engine

from app.kafka import Sender
from dev.servers.apache_kafka import ApacheKafka
from dev.servers.kafka import Kafka
from tests.neighbour import wait_until
from tests.publish.conftest import PARTITIONS
from tests.publish.outbox_world import (
    OutboxWorld,
    everything_on,
    first_occurrences,
    message_id,
    new_topic,
)

ROOT = Path(__file__).parents[2]


@contextmanager
def publisher(
    outbox: OutboxWorld, broker: Kafka, point: str, batch_size: int
) -> Iterator[subprocess.Popen[str]]:
    """A publisher that stands at `point`; gone at the end, whatever happens."""
    environment = {
        **os.environ,
        "DATABASE_URL": outbox.engine.url.render_as_string(hide_password=False),
        "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap,
    }
    argv = [sys.executable, "-m", "tests.publish.publisher", point, str(batch_size)]
    with subprocess.Popen(
        argv, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("go on\n")
    process.stdin.flush()


def test_o3_two_publishers_publish_two_thousand_messages_once_and_in_order(
    engine: Engine, tmp_path: Path
) -> None:
    """Five hundred keys of four messages each; both hold a claim at the same time.

    On Apache Kafka: the embedded broker's partitions can get stuck where two write at once.
    """
    with ApacheKafka(tmp_path) as broker:
        side_by_side(OutboxWorld(engine, new_topic(broker.bootstrap, PARTITIONS)), broker)


def side_by_side(outbox: OutboxWorld, broker: Kafka) -> None:
    keys = [f"key {number % 500}" for number in range(2000)]
    sent = outbox.add_all(keys)
    lines: dict[str, list[UUID]] = defaultdict(list)
    for key, name in zip(keys, sent, strict=True):
        lines[key].append(name)
    with (
        publisher(outbox, broker, "claimed", 300) as one,
        publisher(outbox, broker, "claimed", 300) as other,
    ):
        assert (said(one), said(other)) == ("claimed", "claimed")
        go_on(one)
        go_on(other)
        published = [int(said(one)), int(said(other))]
    assert outbox.unsent() == []
    assert sum(published) == len(sent)
    assert min(published) > 0
    records = everything_on(broker.bootstrap, outbox.topic, PARTITIONS)
    assert len(records) == len(sent)
    assert {key: first_occurrences(records, key) for key in lines} == lines
    assert len({(record.key, record.partition) for record in records}) == len(lines)


def test_o2_a_publisher_killed_before_its_mark_gives_all_back_and_all_is_sent_again_identical(
    outbox: OutboxWorld, broker: Kafka, sender: Sender
) -> None:
    headers = '{"correlation-id": "run", "traceparent": "00-a-b-00"}'
    sent = [
        outbox.add(key, payload=f'{{"n" :  {number}}}', headers=headers)
        for number, key in enumerate("abcabc")
    ]
    with publisher(outbox, broker, "acknowledged", 100) as process:
        assert said(process) == "acknowledged"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert outbox.unsent() == sent
    wait_until(lambda: outbox.drain(sender).published == len(sent), "the rows are free again")
    records = everything_on(broker.bootstrap, outbox.topic, PARTITIONS)
    assert Counter(map(message_id, records)) == dict.fromkeys(sent, 2)
    assert len({(r.key, r.value, tuple(sorted(r.headers))) for r in records}) == len(sent)
    for key in "abc":
        line = [message_id(record) for record in records if record.key == key]
        assert line == 2 * line[:2]
