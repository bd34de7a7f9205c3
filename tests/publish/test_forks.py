"""A producer does not survive a fork: every process makes its own (O2, prefork workers)."""

import os
import subprocess
import sys
from pathlib import Path

from dev.servers.kafka import Kafka
from tests.publish.conftest import PARTITIONS
from tests.publish.forks import CHILDREN, EACH
from tests.publish.outbox_world import everything_on, new_topic

ROOT = Path(__file__).parents[2]


def test_o2_forked_processes_send_with_producers_of_their_own_and_end_in_good_order(
    broker: Kafka,
) -> None:
    topic = new_topic(broker.bootstrap, PARTITIONS)
    done = subprocess.run(
        [sys.executable, "-m", "tests.publish.forks", topic],
        cwd=ROOT,
        env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    acknowledged = [EACH, EACH, EACH, *[2 * EACH] * CHILDREN]
    assert sorted(count for _, count in lines) == acknowledged
    assert len({process for process, _ in lines}) == CHILDREN + 2
    found = [record.key for record in everything_on(broker.bootstrap, topic, PARTITIONS)]
    assert len(found) == len(set(found)) == sum(acknowledged)
