"""The image, statically: what it copies exists, nothing runs as root, every role is in it."""

import fnmatch
import subprocess
import sys
import tomllib
from pathlib import Path

from dev.processes import ROOT
from dev.servers.port import free_port
from dev.servers.valkey import Valkey
from tests.deployment import compose, image
from tests.neighbour import wait_until
from tests.system.celery_process import celery

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def copied() -> list[str]:
    """What comes from the repository."""
    copies = [rest.split() for name, rest in image.instructions() if name == "COPY"]
    return [one for words in copies if not words[0].startswith("--from") for one in words[:-1]]


def test_it_copies_what_exists_and_is_not_kept_out() -> None:
    kept_out = (ROOT / ".dockerignore").read_text().split()
    assert copied()
    for path in copied():
        assert (ROOT / path).exists(), path
        assert not any(fnmatch.fnmatch(path, pattern) for pattern in kept_out), path


def test_it_builds_from_what_the_package_is_built_from(installed: Path) -> None:
    """`installed` is made as the image makes it: from the lock, then the package without more."""
    assert {"pyproject.toml", "README.md", "celeryconfig.py", "app", "tasks"} <= set(copied())
    runs = [rest for name, rest in image.instructions(0) if name == "RUN"]
    assert "--require-hashes -r requirements/runtime.lock" in runs[0]
    assert runs[1].endswith("--no-deps .")


def test_its_python_is_one_that_the_package_supports() -> None:
    for name, rest in image.instructions():
        if name == "FROM":
            version = rest.removeprefix("python:").partition("-")[0]
            assert PROJECT["requires-python"] == f">={version}"


def test_no_root_and_no_build_tools_in_the_last_stage() -> None:
    user, group = image.only("USER").split(":")
    assert int(user) > 0
    assert int(group) > 0
    names = [name for name, _ in image.instructions(-2)]
    assert names.index("USER") < names.index("CMD")
    assert not any("pip" in rest for name, rest in image.instructions(-2) if name == "RUN")


def test_flowers_probe_finds_flower(valkey: Valkey, tmp_path: Path) -> None:
    port = free_port()
    options = (f"--port={port}", "--address=127.0.0.1")
    environment = {"CELERY_BROKER_URL": valkey.url, "FLOWER_BASIC_AUTH": "user:password"}
    words = [word.replace("5555", str(port)) for word in compose.probe("flower")]
    assert words[0] == "python"

    def well() -> bool:
        asked = subprocess.run([sys.executable, *words[1:]], capture_output=True, check=False)
        return asked.returncode == 0

    assert not well()
    with celery("flower", *options, environment=environment, directory=tmp_path):
        wait_until(well, "Flower is well")
