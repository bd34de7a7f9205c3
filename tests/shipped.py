"""The product as it is shipped: what is built, and a place where only that is installed."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dev.processes import ROOT


def source_in(place: Path) -> Path:
    """A copy of what is built: setuptools would ship what an older build left behind."""
    source = place / "source"
    source.mkdir()
    for folder in ("app", "tasks"):
        shutil.copytree(ROOT / folder, source / folder)
    for name in ("pyproject.toml", "README.md", "celeryconfig.py"):
        shutil.copy(ROOT / name, source)
    return source


def install_in(place: Path, python: str = sys.executable) -> Path:
    """An environment of its own with the runtime dependencies only; where its programs are."""
    uv = [str(Path(sys.executable).parent / "uv"), "--quiet"]
    subprocess.run([*uv, "venv", "--python", python, str(place / "venv")], check=True)
    install = [*uv, "pip", "install", "--python", str(place / "venv" / "bin" / "python")]
    locked = str(ROOT / "requirements" / "runtime.lock")
    subprocess.run([*install, "--require-hashes", "-r", locked], check=True)
    subprocess.run([*install, "--no-deps", str(source_in(place))], check=True)
    return place / "venv" / "bin"


def known(
    installed: Path, command: Sequence[str], directory: Path
) -> subprocess.CompletedProcess[str]:
    """A command with `--help` behind it: what stands before must be known, and nothing is done."""
    program, *arguments = command
    return subprocess.run(
        [installed / program, *arguments, "--help"],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "CELERY_BROKER_URL": "redis://127.0.0.1:1/0"},
        capture_output=True,
        text=True,
        check=False,
    )
