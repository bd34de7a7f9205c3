"""A backlog drains on three lanes: claim, send, mark side by side, and O3 holds between them."""

import threading
from collections.abc import Sequence
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from app import database
from app.kafka import Sender
from app.store import outbox as store
from dev.servers.mock_kafka import MockKafka
from tests.gate import PATIENCE
from tests.publish.conftest import MOCKED
from tests.publish.outbox_world import OutboxWorld, everything_on, first_occurrences, message_id


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30))
def test_o3_whoever_is_sent_has_nobody_before_it_but_who_goes_along_or_has_gone(
    line: list[tuple[str, bool]],
) -> None:
    """Each message: its key, and whether it is in this claim."""
    last: dict[str, int] = {}
    rows, gone = [], {0}
    for number, (key, claimed) in enumerate(line, 1):
        if claimed:
            rows.append(store.Row(number, "", "t", key, "", {}, 0, last.get(key)))
        elif number % 2:
            gone.add(number)
        last[key] = number
    going = {row.id for row in store.in_turn(rows, gone)}
    for row in rows:
        free = row.previous is None or row.previous in gone or row.previous in going
        assert (row.id in going) == free


def test_o3_few_keys_over_many_batches_arrive_once_and_in_order(
    mocked: OutboxWorld, quick: Sender, mock: MockKafka
) -> None:
    keys = [f"key-{number % 3}" for number in range(300)]
    sent = mocked.add_all(keys)
    report = mocked.drain(quick, batch_size=20)
    assert (report.outcome, report.published) == ("completed", 300), report.detail
    found = everything_on(mock.bootstrap, MOCKED)
    assert sorted(map(message_id, found)) == sorted(sent)
    for key in set(keys):
        line = [one for one, its in zip(sent, keys, strict=True) if its == key]
        assert first_occurrences(found, key) == line


def test_a_batch_is_sent_while_the_one_before_it_is_marked(
    mocked: OutboxWorld, quick: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, send, sent = store.mark_published, Sender.send, threading.Event()
    marks: list[Sequence[int]] = []

    def note_the_third(self: Sender, records: Sequence[object], *more: object) -> object:
        found = send(self, records, *more)  # type: ignore[arg-type]
        if len(marks) == 2:  # the first batch goes alone; the second one waits below
            sent.set()
        return found

    def wait_once(connection: Connection, ids: Sequence[int]) -> list[float]:
        marks.append(ids)
        if len(marks) == 2:
            assert sent.wait(PATIENCE), "nothing was sent meanwhile"
        return mark(connection, ids)

    monkeypatch.setattr(Sender, "send", note_the_third)
    monkeypatch.setattr(store, "mark_published", wait_once)
    mocked.add_all([str(uuid4()) for _ in range(40)])
    report = mocked.drain(quick, batch_size=10)
    assert (report.outcome, report.published) == ("completed", 40), report.detail


def test_without_further_connections_a_drain_is_slower_and_not_failed(
    mocked: OutboxWorld, quick: Sender
) -> None:
    alone = OutboxWorld(database.engine(mocked.engine.url, 1), mocked.topic)
    mocked.add_all([str(uuid4()) for _ in range(40)])
    report = alone.drain(quick, batch_size=10)
    alone.engine.dispose()
    assert (report.outcome, report.published) == ("completed", 40), report.detail
    assert "fewer lanes than 3" in (report.detail or "")
