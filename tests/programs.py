"""Programs that no wheel brings: a laptop may lack them, CI never does."""

import os
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from dev.servers.binaries import on_path


def needed(program: str, package: str) -> str:
    """Where it is; the test is skipped where it is missing, but in CI, which installs it, fails."""
    found = on_path(program)
    if found is None:
        _missing(f"{program} is not on the PATH (Debian's package {package} has it)")
    return found


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def python(version: str) -> str:
    """An interpreter of this version, as 3.12: on the PATH, or one of pyenv's.

    The test is skipped where there is none, in CI too: interpreters are the machine's own.
    """
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    kept = sorted(home.glob(f"versions/{version}.*/bin/python"))
    for found in (on_path(f"python{version}"), *map(str, kept)):
        if found is not None and _runs(found):
            return found
    pytest.skip(f"there is no Python {version} here")


def _runs(program: str) -> bool:
    """Whether it does: pyenv keeps a name on the PATH for what is switched off."""
    return subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0
