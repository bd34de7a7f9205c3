"""Processes of the product behind PgBouncer in transaction mode, as they are deployed."""

import os
from pathlib import Path

import pytest

from dev.servers.kafka import Kafka
from dev.servers.valkey import Valkey
from tests.neighbour import wait_until
from tests.pooler.conftest import ROLE
from tests.system.celery_process import app, celery, tick
from tests.world import World

TASK = "calendar.appointment_timeout"
HANGS = """
CREATE FUNCTION calendar.hangs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(600);
    RETURN NEW;
END $$;
CREATE TRIGGER hangs BEFORE UPDATE ON calendar.availability_slots
    FOR EACH ROW EXECUTE FUNCTION calendar.hangs();
"""
HANGING = """SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event = 'PgSleep'"""
FREE = "SELECT FROM calendar.appointments WHERE id = :id FOR UPDATE SKIP LOCKED"


@pytest.fixture
def environment(url: str, valkey: Valkey, kafka: Kafka) -> dict[str, str]:
    """What a process needs to run behind the pooler."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "DATABASE_URL": url,
        "DATABASE_POOL_MODE": "transaction",
        "CELERY_BROKER_URL": valkey.url,
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap,
    }


def test_a_worker_does_all_its_work_and_killed_in_mid_statement_gives_its_row_back(
    world: World, environment: dict[str, str], tmp_path: Path
) -> None:
    world.execute(f"ALTER ROLE {ROLE} SET statement_timeout = '10min'")  # so that it ends nothing
    made = world.appointment()
    with celery("worker", environment=environment, directory=tmp_path) as worker:
        tick(TASK, environment)
        wait_until(lambda: all_sent(world), "its messages are in Kafka")
        assert world.status(made) == "Expired"
        app("health", "--live", environment=environment)
        app("verify", environment=environment)
        told = app("verify", "--kafka", environment=environment, code=1)
        assert told.stderr.startswith("The topics are compared in temporary tables")
        hangs = world.appointment()
        world.execute(HANGS)
        tick(TASK, environment)
        wait_until(lambda: world.all(HANGING), "it is in mid-statement")
        assert not world.all(FREE, id=hangs.appointment)
        worker.process.kill()
        wait_until(lambda: world.all(FREE, id=hangs.appointment), "its row is free")
    assert not world.all(HANGING)


def all_sent(world: World) -> bool:
    """Whether there are messages, and all are acknowledged."""
    return {one["published_at"] is None for one in world.messages()} == {False}
