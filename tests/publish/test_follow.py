"""A drain beside a cycle: it goes on looking, and leaves a record when it did something (O1)."""

import json
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import event

from app import facts, publish, relay
from app.kafka import Sender
from app.store import runs
from app.store.runs import Job, Outcome
from dev.servers.mock_kafka import MockKafka
from tests.neighbour import Neighbour, wait_until
from tests.publish.conftest import MOCKED
from tests.publish.outbox_world import QUICK, OutboxWorld, everything_on, sender_to


class Cycle:
    """A cycle under way, as its record shows it."""

    def __init__(self, outbox: OutboxWorld) -> None:
        self.engine, self.run_id = outbox.engine, str(uuid4())
        with self.engine.begin() as connection:
            runs.start(connection, self.run_id, Job.APPOINTMENT_TIMEOUT, outbox.now())

    def finish(self) -> None:
        with self.engine.begin() as connection:
            runs.finish(connection, self.run_id, Outcome.COMPLETED, {})


def test_o1_a_drain_that_finds_nothing_leaves_no_record(mocked: OutboxWorld, quick: Sender) -> None:
    heard: list[facts.Fact] = []
    report = mocked.drain(quick, tell=heard.append)
    assert (report.outcome, report.published, mocked.kept(report)) == ("completed", 0, [])
    assert heard == [facts.DrainEnded("completed", report.result(), None)]


def test_o1_a_drain_that_publishes_is_kept_with_its_figures(
    mocked: OutboxWorld, quick: Sender
) -> None:
    mocked.add_all(["a", "b", "a"])
    mocked.add(headers="[]")
    report = mocked.drain(quick)
    [kept] = mocked.kept(report)
    assert kept["result"] == report.result()
    assert json.loads(json.dumps(kept["result"])) == {
        "PublishedCount": 3,
        "RefusedCount": 1,
        "SetAsideCount": 0,
        "DurationMs": report.duration_ms,
    }
    assert (kept["job"], kept["outcome"]) == ("outbox_publisher", "completed")
    assert kept["started_at"] <= kept["finished_at"]


def test_o1_while_a_cycle_is_under_way_what_it_commits_goes_out_in_the_same_drain(
    mocked: OutboxWorld, quick: Sender, mock: MockKafka
) -> None:
    cycle = Cycle(mocked)
    drain = Neighbour(lambda: mocked.drain(quick))
    sent = []
    for key in "aab":
        sent.append(mocked.add(key))
        wait_until(lambda: mocked.unsent() == [], "the drain has published what was committed")
    cycle.finish()
    assert drain.result().published == len(sent) == len(everything_on(mock.bootstrap, MOCKED))


def test_o1_the_last_commit_of_a_cycle_is_never_missed(mocked: OutboxWorld, quick: Sender) -> None:
    """The cycle commits and ends just before the drain's first, second, … statement."""
    engine = mocked.impatient("20s").engine
    for moment in range(1, 9):
        cycle, statement = Cycle(mocked), count(1)

        def end_the_cycle(
            _c: Any,
            _k: Any,
            sql: str,
            *_more: Any,
            statement: Any = statement,
            cycle: Any = cycle,
            moment: int = moment,
        ) -> None:
            if "calendar." in sql and next(statement) == moment:
                mocked.add("last")
                cycle.finish()

        event.listen(engine, "before_cursor_execute", end_the_cycle)
        report = OutboxWorld(engine, MOCKED).drain(quick)
        event.remove(engine, "before_cursor_execute", end_the_cycle)
        assert (report.outcome, report.published) == ("completed", 1), moment


def test_o1_the_record_of_a_killed_cycle_is_not_followed_for_ever(
    mocked: OutboxWorld, quick: Sender
) -> None:
    """It will never be finished; but it is soon older than any cycle can be."""
    Cycle(mocked)
    mocked.add()
    report = mocked.drain(quick, cycle_seconds=0.5)
    assert (report.outcome, report.published) == ("completed", 1)


def test_o1_a_cycle_that_hangs_is_followed_no_longer_than_it_is_silent(
    mocked: OutboxWorld, quick: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the drain would keep its place in the worker for the whole budget of a cycle."""
    monkeypatch.setattr(relay, "FOLLOW_SECONDS", 0.5)
    Cycle(mocked)
    mocked.add()
    assert (mocked.drain(quick).outcome, mocked.unsent()) == ("completed", [])


def test_o1_a_drain_ends_by_its_own_time_and_the_next_one_goes_on(
    mocked: OutboxWorld, quick: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "DRAIN_SECONDS", 0.5)
    Cycle(mocked)
    assert mocked.drain(quick).outcome == "cut_short"
    monkeypatch.undo()
    mocked.add()
    assert mocked.drain(quick, cycle_seconds=0.0).published == 1


def test_o1_a_following_drain_stops_when_it_is_asked_to(mocked: OutboxWorld, quick: Sender) -> None:
    Cycle(mocked)
    asked = count()
    assert mocked.drain(quick, stopping=lambda: next(asked) >= 3).outcome == "stopped"


def test_c5_a_database_that_refuses_is_a_failed_drain_with_one_plain_sentence(
    mocked: OutboxWorld, quick: Sender
) -> None:
    mocked.add()
    mocked.execute("ALTER TABLE calendar.outbox_messages RENAME TO elsewhere")
    report = mocked.drain(quick)
    assert (report.outcome, report.detail) == (
        "failed",
        "The schema is missing or too old: run `python -m app migrate`.",
    )
    mocked.execute("ALTER TABLE calendar.elsewhere RENAME TO outbox_messages")
    assert mocked.drain(quick).published == 1


def test_o2_options_that_do_not_go_together_fail_the_drain_in_one_sentence(
    mocked: OutboxWorld, mock: MockKafka
) -> None:
    mocked.add()
    wrong = sender_to(mock.bootstrap, {**QUICK, "max.in.flight": "10"})
    report = mocked.drain(wrong)
    assert report.outcome == "failed"
    assert (report.detail or "").startswith("Kafka client options are wrong: ")
    assert len(mocked.unsent()) == 1
