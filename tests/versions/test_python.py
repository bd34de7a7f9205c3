"""The product at work as it is installed, far from this repository, on each supported Python."""

import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from dev.servers.kafka import Kafka
from dev.servers.postgres import Postgres
from dev.servers.postgres_release import RELEASES
from dev.servers.process import ServerProcess
from dev.servers.valkey import Valkey
from tests.conftest import engine_for
from tests.neighbour import wait_until
from tests.programs import python
from tests.shipped import install_in
from tests.system.celery_process import tick
from tests.world import World

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SUPPORTED = [
    line.removeprefix("Programming Language :: Python :: ")
    for line in PROJECT["classifiers"]
    if line.startswith("Programming Language :: Python :: ")
]


def run(programs: Path, command: str, folder: Path, **environment: str) -> str:
    """What a command prints, which must succeed."""
    program, *arguments = command.split()
    done = subprocess.run(
        [programs / program, *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def test_the_version_stands_in_one_place(installed: Path, tmp_path: Path) -> None:
    assert run(installed, "python -m app --version", tmp_path).strip() == PROJECT["version"]


@pytest.mark.parametrize("page", ["README.md", "docs/upgrading.md"])
def test_the_supported_versions_are_those_that_are_tested(page: str) -> None:
    text = " ".join((ROOT / page).read_text().split())
    assert f"Python {SUPPORTED[0]} to {SUPPORTED[-1]}" in text
    assert f"PostgreSQL {min(RELEASES)} to {max(RELEASES)}" in text


@pytest.fixture
def empty_database(postgres: Postgres) -> Iterator[str]:
    """Not migrated yet."""
    name = f"wheel_{uuid4().hex[:12]}"
    postgres.create_database(name)
    yield name
    postgres.drop_database(name)


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_product_works_from_its_wheel_on_every_supported_python(
    version: str,
    tmp_path: Path,
    postgres: Postgres,
    empty_database: str,
    valkey: Valkey,
    kafka: Kafka,
) -> None:
    programs, empty = install_in(tmp_path, python(version)), tmp_path / "empty"
    empty.mkdir()
    environment = {
        "DATABASE_URL": postgres.url(empty_database),
        "CELERY_BROKER_URL": valkey.url,
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap,
    }
    run(programs, "python -m app migrate", empty, **environment)
    world = World(engine_for(postgres, empty_database))
    made = world.appointment()
    worker = ServerProcess(
        "worker",
        [programs / "celery", "-A", "tasks", "worker"],
        log=tmp_path / "worker.log",
        environment={"PATH": os.environ["PATH"], **environment},
    )
    try:
        tick("calendar.appointment_timeout", environment)
        wait_until(lambda: world.status(made) == "Expired", "the appointment's expiry")
        wait_until(lambda: all(one["published_at"] for one in world.messages(made)), "its messages")
    finally:
        worker.stop()
        world.engine.dispose()
