"""What is shipped: the wheel's contents, and what the compose file says, checked statically."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from app import settings
from app.domain.outbox import TOPICS

ROOT = Path(__file__).parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
OURS = {"migrate", "worker", "beat", "flower"}


def source_in(place: Path) -> Path:
    """A copy of what is built: setuptools would ship what an older build left behind."""
    source = place / "source"
    source.mkdir()
    for folder in ("app", "tasks"):
        shutil.copytree(ROOT / folder, source / folder)
    for name in ("pyproject.toml", "README.md", "celeryconfig.py"):
        shutil.copy(ROOT / name, source)
    return source


def test_the_wheel_holds_every_module_and_migration(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(tmp_path), str(source)], check=True)
    [wheel] = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    shipped = {
        str(path.relative_to(ROOT))
        for folder in ("app", "tasks")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".mako"}
    }
    assert held == shipped | {"celeryconfig.py"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product in an environment of its own, with its runtime dependencies only."""
    place = tmp_path_factory.mktemp("installed")
    uv = [str(Path(sys.executable).parent / "uv"), "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(place / "venv")], check=True)
    install = [*uv, "pip", "install", "--python", str(place / "venv" / "bin" / "python")]
    locked = str(ROOT / "requirements" / "runtime.lock")
    subprocess.run([*install, "--require-hashes", "-r", locked], check=True)
    subprocess.run([*install, "--no-deps", "setuptools"], check=True)
    subprocess.run([*install, "--no-deps", str(source_in(place))], check=True)
    return place


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
    installed: Path, tmp_path: Path, command: str
) -> None:
    program, *arguments = command.split()
    done = subprocess.run(
        [installed / "venv" / "bin" / program, *arguments],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
            "DATABASE_URL": "postgresql://127.0.0.1:1/x",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_compose_runs_every_role_with_a_command_that_exists() -> None:
    assert set(COMPOSE["services"]) >= OURS
    for name in OURS:
        words = COMPOSE["services"][name]["command"]
        help_of = words[: 4 if words[0] == "celery" else len(words)]
        done = subprocess.run(
            [Path(sys.executable).parent / help_of[0], *help_of[1:], "--help"],
            env={**os.environ, "CELERY_BROKER_URL": "redis://127.0.0.1:1/0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (name, done.stderr)


def test_every_variable_of_the_compose_file_is_one_of_ours() -> None:
    known = {name for name, _default, _meaning in settings.table()}
    for name in OURS:
        given = set(COMPOSE["services"][name]["environment"])
        assert {v for v in given if not v.startswith("FLOWER_")} <= known


def test_a_stop_waits_longer_than_an_item_and_kafka_together() -> None:
    from app.kafka_options import DELIVERY_SECONDS  # noqa: PLC0415
    from app.relay import BATCH_SECONDS  # noqa: PLC0415

    grace = float(COMPOSE["services"]["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace > BATCH_SECONDS + DELIVERY_SECONDS


@pytest.mark.parametrize("topic", TOPICS)
def test_compose_creates_the_topics_since_the_publisher_never_does(topic: str) -> None:
    assert topic in COMPOSE["services"]["topics"]["command"][-1]


def test_secrets_come_from_the_environment_and_are_named_in_the_example() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    example = (ROOT / ".env.example").read_text()
    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "FLOWER_BASIC_AUTH", "GRAFANA_PASSWORD"):
        assert f"${{{name}:?" in text
        assert f"{name}=" in example
