"""What is old leaves in bounded batches; what still has to go out never does (O5)."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from sqlalchemy import Engine, event

from app import retention
from app.retention import RetentionOptions, sweep
from tests.neighbour import holding
from tests.world import World

WEEK = RetentionOptions(outbox_days=7, job_runs_days=7)
NOTHING = {"OutboxMessagesRemoved": 0, "JobRunsRemoved": 0}


def add(world: World, name: str, copies: int = 1, **ages: float) -> None:
    """Messages of the key `name`; each age is a column and how many days ago it was."""
    columns = "".join(f", {column}" for column in ages)
    values = "".join(f", now() - make_interval(secs => 86400 * :{column})" for column in ages)
    world.execute(
        f"""INSERT INTO calendar.outbox_messages (topic, key, payload {columns})
        SELECT 't', :name, '{{}}' {values} FROM generate_series(1, :copies)""",
        name=name,
        copies=copies,
        **ages,
    )


def add_runs(world: World, name: str, days: float, copies: int = 1) -> None:
    world.execute(
        """INSERT INTO calendar.job_runs (run_id, job, started_at)
        SELECT :name || number, 'retention', now() - make_interval(secs => 86400 * :days)
        FROM generate_series(1, :copies) AS number""",
        name=name,
        days=days,
        copies=copies,
    )


def keys(world: World) -> set[str]:
    return {row["key"] for row in world.all("SELECT DISTINCT key FROM calendar.outbox_messages")}


@contextmanager
def deletions(engine: Engine) -> Iterator[list[int]]:
    """How many rows each DELETE took; a commit between two of them is None's place."""
    found: list[int] = []

    def note(_c: object, cursor: Any, statement: str, *_more: object) -> None:
        if "DELETE" in statement:
            found.append(cursor.rowcount)

    def note_commit(_connection: object) -> None:
        found.append(-1)

    event.listen(engine, "after_cursor_execute", note)
    event.listen(engine, "commit", note_commit)
    try:
        yield found
    finally:
        event.remove(engine, "after_cursor_execute", note)
        event.remove(engine, "commit", note_commit)


def test_o5_what_is_published_or_discarded_leaves_after_its_time_and_nothing_else(
    world: World, engine: Engine
) -> None:
    """However old: an unsent message never, a set-aside one never."""
    add(world, "published long ago", created_at=9, published_at=7.001)
    add(world, "published lately", created_at=90, published_at=6.999)
    add(world, "discarded long ago", created_at=9, set_aside_at=8, discarded_at=7.001)
    add(world, "discarded lately", created_at=90, set_aside_at=80, discarded_at=6.999)
    add(world, "unsent", created_at=900)
    add(world, "refused", created_at=900, last_attempt_at=900)
    add(world, "set aside", created_at=900, last_attempt_at=900, set_aside_at=900)
    assert sweep(engine, WEEK) == {"OutboxMessagesRemoved": 2, "JobRunsRemoved": 0}
    assert keys(world) == {
        "published lately",
        "discarded lately",
        "unsent",
        "refused",
        "set aside",
    }
    assert sweep(engine, WEEK) == NOTHING


def test_o5_records_of_runs_leave_after_their_own_time(world: World, engine: Engine) -> None:
    add(world, "published", published_at=1)
    add_runs(world, "old", 2.001)
    add_runs(world, "young", 1.999)
    options = RetentionOptions(outbox_days=2, job_runs_days=2)
    assert sweep(engine, options) == {"OutboxMessagesRemoved": 0, "JobRunsRemoved": 1}
    assert [row["run_id"] for row in world.all("SELECT run_id FROM calendar.job_runs")] == [
        "young1"
    ]
    half_a_day = RetentionOptions(outbox_days=0.5, job_runs_days=1e6)
    assert sweep(engine, half_a_day) == {"OutboxMessagesRemoved": 1, "JobRunsRemoved": 0}


def test_section_8_each_jobs_last_success_stays_however_old(world: World, engine: Engine) -> None:
    """`status` and the alert on missing cycles go by it, after a week without one most of all."""
    world.execute(
        """INSERT INTO calendar.job_runs (run_id, job, started_at, finished_at, outcome)
        SELECT job || days || outcome, job, now() - make_interval(days => days), now(), outcome
        FROM unnest(ARRAY['appointment_timeout', 'outbox_publisher']) job,
             unnest(ARRAY[20, 10]) days,
             unnest(ARRAY['completed', 'failed']) outcome"""
    )
    assert sweep(engine, WEEK)["JobRunsRemoved"] == 6
    kept = {row["run_id"] for row in world.all("SELECT run_id FROM calendar.job_runs")}
    assert kept == {"appointment_timeout10completed", "outbox_publisher10completed"}


def test_o5_every_batch_is_bounded_and_a_transaction_of_its_own(
    world: World, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 40)
    add(world, "published", 100, published_at=9)
    add(world, "discarded", 70, discarded_at=9)
    add(world, "unsent", 50)
    add_runs(world, "run", 9, 90)
    with deletions(engine) as found:
        assert sweep(engine, WEEK) == {"OutboxMessagesRemoved": 170, "JobRunsRemoved": 90}
    assert found == [40, 40, -1, 40, 30, -1, 20, 0, -1, 40, -1, 40, -1, 10, -1]
    assert len(world.messages()) == 50


def test_o5_a_batch_is_bounded_also_when_the_planner_would_join(
    world: World, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a nested loop a choice made by `id IN (… LIMIT … SKIP LOCKED)` takes everything."""
    monkeypatch.setattr(retention, "BATCH", 10)
    add(world, "published", 500, published_at=9)
    asked = count()
    with engine.begin() as connection:
        for setting in ("hashjoin", "hashagg", "material", "sort"):
            connection.exec_driver_sql(
                f"ALTER DATABASE {engine.url.database} SET enable_{setting} = off"
            )
    engine.dispose()
    removed = sweep(engine, WEEK, stopping=lambda: next(asked) >= 1)
    assert removed["OutboxMessagesRemoved"] == 10


def test_o5_s5_a_sweep_stops_when_it_is_asked_to_and_the_next_one_goes_on(
    world: World, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 10)
    add(world, "published", 50, published_at=9)
    add_runs(world, "run", 9, 50)
    asked = count()
    removed = sweep(engine, WEEK, stopping=lambda: next(asked) >= 3)
    assert removed == {"OutboxMessagesRemoved": 30, "JobRunsRemoved": 0}
    assert sweep(engine, WEEK) == {"OutboxMessagesRemoved": 20, "JobRunsRemoved": 50}


def test_o5_a_sweep_ends_by_its_own_time(
    world: World, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(world, "published", published_at=9)
    monkeypatch.setattr(retention, "SECONDS", 0.0)
    assert sweep(engine, WEEK) == NOTHING


def test_o5_a_row_that_somebody_holds_is_passed_over_and_taken_by_the_next_sweep(
    world: World, engine: Engine
) -> None:
    add(world, "held", published_at=9)
    add(world, "free", published_at=8)
    with holding(engine, "SELECT FROM calendar.outbox_messages WHERE key = 'held' FOR UPDATE"):
        assert sweep(engine, WEEK)["OutboxMessagesRemoved"] == 1
        assert keys(world) == {"held"}
    assert sweep(engine, WEEK)["OutboxMessagesRemoved"] == 1
