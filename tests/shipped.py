"""The product as it is shipped: what is built, and a place where only that is installed."""

import shutil
import subprocess
import sys
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


def install_in(place: Path) -> Path:
    """An environment of its own with the runtime dependencies only; where its programs are."""
    uv = [str(Path(sys.executable).parent / "uv"), "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(place / "venv")], check=True)
    install = [*uv, "pip", "install", "--python", str(place / "venv" / "bin" / "python")]
    locked = str(ROOT / "requirements" / "runtime.lock")
    subprocess.run([*install, "--require-hashes", "-r", locked], check=True)
    subprocess.run([*install, "--no-deps", "setuptools"], check=True)
    subprocess.run([*install, "--no-deps", str(source_in(place))], check=True)
    return place / "venv" / "bin"
