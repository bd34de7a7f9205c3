"""`python -m app outbox`: set-aside messages are listed, requeued and discarded by hand (O4)."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, Engine, text

from app.kafka import Sender
from app.relay import MAX_ATTEMPTS
from app.store import outbox as store
from dev.servers.mock_kafka import MockKafka
from tests.neighbour import Neighbour, holding, wait_until
from tests.publish.conftest import MOCKED, OTHER
from tests.publish.outbox_world import OutboxWorld, everything_on, message_id

ROOT = Path(__file__).parents[2]


class Desk:
    """Runs the operator's commands as a process of its own."""

    def __init__(self, url: str) -> None:
        self.environment = {**os.environ, "DATABASE_URL": url, "COLUMNS": "200"}

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "app", "outbox", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def listed(self, *arguments: str) -> list[dict[str, Any]]:
        done = self("list", "--json", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


@pytest.fixture
def desk(engine: Engine) -> Desk:
    return Desk(engine.url.render_as_string(hide_password=False))


def set_aside(outbox: OutboxWorld, key: str, topic: str = MOCKED) -> UUID:
    """A message that has had all its tries; its message id."""
    name = outbox.add(key, topic=topic)
    outbox.execute(
        """UPDATE calendar.outbox_messages SET attempts = :most, last_error = 'X: no',
        last_attempt_at = now(), set_aside_at = now() WHERE message_id = :id""",
        most=MAX_ATTEMPTS,
        id=name,
    )
    return name


def test_o4_the_list_shows_what_is_refused_and_how_much_waits_for_it(
    mocked: OutboxWorld, desk: Desk
) -> None:
    assert desk("list").stdout == "No message is refused.\n"
    first, second = str(set_aside(mocked, "a")), str(set_aside(mocked, "b", OTHER))
    odd = str(set_aside(mocked, "[/key]", "[red]topic"))
    mocked.add_all(["a", "a", "c"])
    shown = desk("list").stdout
    for word in (first, second, odd, "X: no", "[/key]", "[red]topic"):
        assert word in shown
    [one, other, _] = desk.listed()
    assert one.keys() == store.Refused.__annotations__.keys()
    assert (one["message_id"], one["attempts"], one["held_back"]) == (first, MAX_ATTEMPTS, 2)
    assert (other["topic"], other["held_back"]) == (OTHER, 0)
    set_aside(mocked, "c", OTHER)
    assert [m["message_id"] for m in desk.listed("--topic", OTHER, "--limit", "1")] == [second]


def test_o4_requeue_puts_messages_back_in_order_and_discard_lets_the_later_ones_go(
    mocked: OutboxWorld, desk: Desk, quick: Sender, mock: MockKafka
) -> None:
    given_up, wanted = set_aside(mocked, "a"), set_aside(mocked, "b")
    later = mocked.add_all(["a", "b"])
    assert mocked.drain(quick).published == 0
    done = desk("requeue", str(wanted))
    assert (done.returncode, done.stdout) == (0, "1 message put back; the next drain sends them.\n")
    row = mocked.row(wanted)
    assert (row["attempts"], row["last_error"], row["last_attempt_at"]) == (0, None, None)
    assert mocked.drain(quick).published == 2
    done = desk("discard", str(given_up))
    assert (done.returncode, done.stdout) == (0, "1 message discarded.\n")
    assert mocked.drain(quick).published == 1
    found = everything_on(mock.bootstrap, MOCKED)
    assert [message_id(record) for record in found] == [wanted, later[1], later[0]]
    row = mocked.row(given_up)
    assert (row["published_at"], row["last_error"]) == (None, "X: no")
    assert desk("requeue", str(given_up)).returncode == 1


def test_o4_requeue_and_discard_take_a_topic_or_all(mocked: OutboxWorld, desk: Desk) -> None:
    for key in "ab":
        set_aside(mocked, key)
        set_aside(mocked, key, OTHER)
    assert desk("requeue", "--topic", OTHER).stdout.startswith("2 messages put back")
    assert {m["topic"] for m in desk.listed()} == {MOCKED}
    assert desk("discard", "--all").stdout == "2 messages discarded.\n"
    assert desk.listed() == []


WRONG = [
    [],
    ["--all", "--topic", MOCKED],
    ["{id}", "--all"],
    ["{id}", "--topic", MOCKED],
    ["{id}", "{id}"],
    ["no-uuid"],
]


@pytest.mark.parametrize(("command", "wrong"), [("requeue", WRONG), ("discard", WRONG[:2])])
def test_o4_a_wrong_choice_is_exit_2_and_changes_nothing(
    mocked: OutboxWorld, desk: Desk, command: str, wrong: list[list[str]]
) -> None:
    name = set_aside(mocked, "a")
    before = mocked.messages()

    def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return desk(command, *(argument.format(id=name) for argument in arguments))

    with ThreadPoolExecutor(2) as threads:
        for arguments, done in zip(wrong, threads.map(run, wrong), strict=True):
            assert (done.returncode, done.stdout) == (2, ""), arguments
            assert "Traceback" not in done.stderr
    assert mocked.messages() == before


def waiting(outbox: OutboxWorld) -> int:
    return len(
        outbox.all(
            """SELECT FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'"""
        )
    )


def test_s6_two_who_work_the_same_messages_in_other_orders_do_not_deadlock(
    mocked: OutboxWorld,
) -> None:
    """One reads by index, one from the table, where the rows lie the other way round."""
    names = [set_aside(mocked, key) for key in "abc"]
    for name in reversed(names):  # a new version of each: now they lie as c, b, a
        mocked.execute(
            "UPDATE calendar.outbox_messages SET attempts = attempts WHERE message_id = :id",
            id=name,
        )

    def work(setting: str, do: Callable[[Connection, store.Choice], int]) -> int:
        with mocked.engine.begin() as connection:
            connection.execute(text(f"SET LOCAL {setting} = off"))
            connection.execute(text("SET LOCAL enable_bitmapscan = off"))
            connection.execute(text("SET LOCAL lock_timeout = '30s'"))
            return do(connection, store.Choice())

    middle = "SELECT FROM calendar.outbox_messages WHERE message_id = :id FOR UPDATE"
    with holding(mocked.engine, middle, id=names[1]) as holder:
        one = Neighbour(lambda: work("enable_seqscan", store.requeue))
        wait_until(lambda: waiting(mocked) == 1, "the first stands before the middle one")
        other = Neighbour(lambda: work("enable_indexscan", store.discard))
        wait_until(lambda: waiting(mocked) == 2, "the second stands there too")
        holder.rollback()
    assert sorted([one.result(), other.result()]) == [0, 3]
