"""Where the figures of a worker node live while its processes count: in files that they share.

A prefork node counts in its children and serves from its main process. Each place in the pool has
files of its own, which a child that follows another in its place goes on with, so that recycled
children leave nothing behind. Only a node that serves needs this; and where the operator has set
Prometheus' own directory, Prometheus' own rules hold.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from billiard import current_process
from prometheus_client import values

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
PREFIX = "calendar-metrics-"


@contextmanager
def shared_values(*, wanted: bool) -> Iterator[Path | None]:
    """Metrics made in here count for the whole node; the directory they do it in, if any.

    The client's choice is put back afterwards: the process may not be ours alone.
    """
    if DIRECTORY in os.environ:
        yield Path(os.environ[DIRECTORY])
        return
    if not wanted:
        yield None
        return
    chosen, directory = values.ValueClass, _own_directory()
    values.ValueClass = values.MultiProcessValue(_place)  # type: ignore[no-untyped-call]
    try:
        yield directory
    finally:
        values.ValueClass = chosen


def _place() -> str:
    """Who counts: the pool gives a number to each child, again once it is gone."""
    return str(getattr(current_process(), "index", "main"))


def _own_directory() -> Path:
    """A fresh one per node, named after its main process; those of the dead are swept up."""
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = old.name.removeprefix(PREFIX).split("-")[0]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    maker = os.getpid()
    made = tempfile.mkdtemp(prefix=f"{PREFIX}{maker}-")

    def remove() -> None:
        if os.getpid() == maker:  # not when one of its children ends
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    os.environ[DIRECTORY] = made
    return Path(made)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's process, and so is its directory
        return True
    return True
