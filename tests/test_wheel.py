"""The wheel: what it holds, and the product at work from it, far from this repository."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
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
from tests.system.celery_process import tick
from tests.world import World

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SUPPORTED = [
    line.removeprefix("Programming Language :: Python :: ")
    for line in PROJECT["classifiers"]
    if line.startswith("Programming Language :: Python :: ")
]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of a copy: setuptools would ship what an older build left behind."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    for folder in ("app", "tasks"):
        shutil.copytree(ROOT / folder, source / folder)
    for name in ("pyproject.toml", "README.md", "celeryconfig.py"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(place), str(source)], check=True)
    [built] = place.glob("*.whl")
    return built


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment of its own, and an empty folder to run it from."""

    programs: Path
    folder: Path

    def run(self, command: str, **environment: str) -> str:
        """What a command prints, which must succeed."""
        program, *arguments = command.split()
        done = subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout


def install(wheel: Path, version: str, place: Path) -> Installed:
    """With the locked runtime dependencies and nothing else."""
    uv = [str(Path(sys.executable).parent / "uv"), "--quiet"]
    made = Installed(place / "venv" / "bin", place / "empty")
    made.folder.mkdir()
    subprocess.run([*uv, "venv", "--python", python(version), place / "venv"], check=True)
    pip = [*uv, "pip", "install", "--python", str(made.programs / "python")]
    locked = str(ROOT / "requirements" / "runtime.lock")
    subprocess.run([*pip, "--require-hashes", "-r", locked], check=True)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    return made


@pytest.fixture(scope="session")
def installed_for(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Installed]:
    """For a version of Python, once."""
    return cache(lambda version: install(wheel, version, tmp_path_factory.mktemp("installed")))


@pytest.fixture
def installed(installed_for: Callable[[str], Installed]) -> Installed:
    """For the Python that runs the tests."""
    return installed_for(f"{sys.version_info.major}.{sys.version_info.minor}")


def test_the_wheel_holds_every_module_and_migration(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    shipped = {
        str(path.relative_to(ROOT))
        for folder in ("app", "tasks")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".mako"}
    }
    assert held == shipped | {"celeryconfig.py"}


@pytest.mark.parametrize(
    "command",
    [
        "python -m app --help",
        "python -m app migrate --help",
        "celery -A tasks report",
        "celery -A tasks worker --help",
        "celery -A tasks beat --help",
        "celery -A tasks flower --help",
    ],
)
def test_each_entry_works_from_an_empty_folder_with_runtime_dependencies_only(
    installed: Installed, command: str
) -> None:
    nowhere = "127.0.0.1:1"
    installed.run(
        command,
        CELERY_BROKER_URL=f"redis://{nowhere}/0",
        DATABASE_URL=f"postgresql://{nowhere}/x",
    )


def test_the_version_stands_in_one_place(installed: Installed) -> None:
    assert installed.run("python -m app --version").strip() == PROJECT["version"]


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
    installed_for: Callable[[str], Installed],
    tmp_path: Path,
    postgres: Postgres,
    empty_database: str,
    valkey: Valkey,
    kafka: Kafka,
) -> None:
    product = installed_for(version)
    environment = {
        "DATABASE_URL": postgres.url(empty_database),
        "CELERY_BROKER_URL": valkey.url,
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap,
    }
    product.run("python -m app migrate", **environment)
    world = World(engine_for(postgres, empty_database))
    made = world.appointment()
    worker = ServerProcess(
        "worker",
        [product.programs / "celery", "-A", "tasks", "worker"],
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
