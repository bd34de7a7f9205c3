"""docs/consumers.md keeps its word: its code, as it stands there, acts once (O2, O3, O6)."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from app.domain.outbox import APPOINTMENT_CANCELLED
from app.kafka import Sender
from app.publish import drain
from app.report import DrainOptions
from dev.processes import ROOT
from dev.servers.consumer import read_topics
from dev.servers.kafka import Kafka
from dev.servers.postgres import Postgres
from dev.servers.process import ServerProcess
from tests.contracts.contract import shipped
from tests.neighbour import wait_until
from tests.world import Made, World

PAGE = (ROOT / "docs" / "consumers.md").read_text()
# The page's consumer dies by itself at a chosen place; it leaves its group without a word.
DIES = """
import os, signal, sys, consumer

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

class Dying(consumer.Consumer):
    def __init__(self, settings):
        super().__init__({**settings, "session.timeout.ms": 6000})
    if sys.argv[1] == "before Kafka is told":
        commit = die

def act(cursor, event, whole=consumer.tell_the_lead):
    whole(cursor, event)
    if sys.argv[1] == "before its commit":
        die()

consumer.Consumer, consumer.tell_the_lead = Dying, act
consumer.main()
"""


def code(language: str) -> str:
    """What the page has in this language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def crm(postgres: Postgres) -> Iterator[Any]:
    """The consumer's own database, as the page makes it."""
    postgres.create_database("crm")
    database = psycopg2.connect(postgres.url("crm"))
    database.autocommit = True
    with database.cursor() as cursor:
        cursor.execute(code("sql"))
    yield database
    database.close()
    postgres.drop_database("crm")


@pytest.fixture
def topic() -> Iterator[Kafka]:
    """A broker whose topic has one partition: what comes last has everything behind it."""
    with (
        tempfile.TemporaryDirectory(prefix="calendar-kafka-") as directory,
        Kafka(Path(directory), topics={APPOINTMENT_CANCELLED: 1}) as server,
    ):
        yield server


@pytest.fixture
def environment(topic: Kafka, postgres: Postgres, tmp_path: Path) -> dict[str, str]:
    """Where the page's consumer lies and what it reads."""
    (tmp_path / "consumer.py").write_text(code("python"))
    (tmp_path / "dies.py").write_text(DIES)
    return {
        "PATH": os.environ["PATH"],
        "KAFKA_BOOTSTRAP_SERVERS": topic.bootstrap,
        "CRM_DATABASE_URL": postgres.url("crm"),
    }


def expire_and_publish(world: World, topic: Kafka, appointments: int) -> list[Made]:
    """So many messages on the topic, by the product itself."""
    made = [world.appointment() for _ in range(appointments)]
    world.run()
    world.execute("DELETE FROM calendar.outbox_messages WHERE topic <> :t", t=APPOINTMENT_CANCELLED)
    publish(world, topic, appointments)
    return made


def publish(world: World, topic: Kafka, messages: int) -> None:
    sender = Sender({"bootstrap.servers": topic.bootstrap})
    assert drain(world.engine, sender, DrainOptions(), "run").published == messages
    sender.close()


def restore_and_publish_again(world: World, topic: Kafka, messages: int) -> None:
    """As after a restore from a backup that did not know that they were published."""
    world.execute("UPDATE calendar.outbox_messages SET published_at = NULL")
    publish(world, topic, messages)


def feed(crm: Any) -> list[str]:
    """The appointments in the lead's feed, in the order in which they came."""
    with crm.cursor() as cursor:
        cursor.execute("SELECT appointment_id FROM lead_feed ORDER BY xmin::text::bigint")
        return [row[0] for row in cursor]


def dies(place: str, environment: dict[str, str], directory: Path) -> None:
    """The page's consumer takes one message and is gone."""
    ended = subprocess.run(
        [sys.executable, directory / "dies.py", place], env=environment, timeout=120, check=False
    )
    assert ended.returncode == -signal.SIGKILL


def test_o6_with_repeats_and_a_consumer_that_dies_every_message_acts_once(
    world: World, topic: Kafka, crm: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    made = expire_and_publish(world, topic, 3)
    restore_and_publish_again(world, topic, 3)
    dies("before its commit", environment, tmp_path)
    assert feed(crm) == []
    dies("before Kafka is told", environment, tmp_path)
    assert len(feed(crm)) == 1
    dies("before Kafka is told", environment, tmp_path)
    assert len(feed(crm)) == 1, "the same message came again, and acted again"
    [last] = expire_and_publish(world, topic, 1)
    log = tmp_path / "consumer.log"
    page = ServerProcess(
        "consumer",
        [sys.executable, tmp_path / "consumer.py"],
        log=log,
        environment=environment,
    )
    try:
        wait_until(lambda: str(last.appointment) in feed(crm), "the last message", 120)
    finally:
        page.kill()
    records = read_topics(topic.bootstrap, [APPOINTMENT_CANCELLED], expected=7, timeout=60)
    firsts = list(dict.fromkeys(record.key for record in records))
    assert len(records) == 7
    assert feed(crm) == firsts
    assert set(firsts) == {str(one.appointment) for one in (*made, last)}


def test_the_page_names_every_field_and_header_and_nothing_else() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    named = {field for row in rows for field in re.findall(r"\w+", row)}
    messages = shipped().messages.values()
    assert named == {field for message in messages for field in message.payload["properties"]}
    [headers] = re.findall(r"^Headers: (.*)$", PAGE, re.MULTILINE)
    for message in messages:
        assert set(re.findall(r"`([\w-]+)` \(", headers)) == message.headers["properties"].keys()
        for values in message.payload["properties"].values():
            assert all(f"`{value}`" in PAGE for value in values.get("enum", []))
