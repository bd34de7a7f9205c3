"""The work itself: where it stands still, and where to look; never more than a warning."""

import pytest
from sqlalchemy import Engine

from app.doctor import examine
from app.doctor.complaint import Complaint, NotExamined
from app.store import brake
from dev.servers.port import free_port
from dev.servers.postgres import Postgres
from tests.world import World


@pytest.fixture
def at_work(
    world: World, postgres: Postgres, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> World:
    """A cycle has just ended."""
    monkeypatch.setenv("DATABASE_URL", postgres.url(database_name))
    world.run()
    return world


def only_warning() -> Complaint:
    [complaint] = examine("work")
    assert not complaint.serious
    return complaint


def test_work_that_is_done_is_no_complaint(at_work: World) -> None:
    assert list(examine("work")) == []


def test_no_cycle_for_five_intervals(at_work: World) -> None:
    at_work.execute("UPDATE calendar.job_runs SET finished_at = now() - interval '301 s'")
    assert only_warning().found == "No cycle has ended for 301 s."
    at_work.execute("DELETE FROM calendar.job_runs")
    assert only_warning().found == "No cycle has ever ended here."
    assert "ops/runbooks/appointment-timeout.md" in only_warning().remedy


def test_the_brake(at_work: World, engine: Engine) -> None:
    with engine.begin() as connection:
        brake.pull(connection, "bad import", "the night shift")
    assert "bad import" in only_warning().found
    assert "`python -m app resume`" in only_warning().remedy


def test_poison(at_work: World) -> None:
    at_work.appointment(slot_status="Available")
    at_work.run()
    assert only_warning().found == "1 appointments cannot expire."
    assert "`python -m app status`" in only_warning().remedy


def test_messages_that_are_set_aside_or_wait(at_work: World) -> None:
    at_work.execute(
        """INSERT INTO calendar.outbox_messages (topic, key, payload, created_at)
        VALUES ('t', 'k', '{}', now() - interval '301 s')"""
    )
    assert "has waited for Kafka for 301 s" in only_warning().found
    at_work.execute(
        "UPDATE calendar.outbox_messages SET last_error = 'too large', set_aside_at = now()"
    )
    assert only_warning().found.startswith("1 messages are set aside")
    assert "`python -m app outbox list`" in only_warning().remedy


def test_without_a_database_it_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://127.0.0.1:{free_port()}/x")
    with pytest.raises(NotExamined, match="cannot be reached"):
        list(examine("work"))


def test_without_a_schema_it_cannot_be_told(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", postgres.url())
    with pytest.raises(NotExamined, match="python -m app migrate"):
        list(examine("work"))
