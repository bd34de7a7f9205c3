"""Where the figures of a worker node live while its processes count: in files that they share.

A prefork node counts in its children and serves from its main process. Each place in the pool has
files of its own, which a child that follows another in its place goes on with, so that recycled
children leave nothing behind. Only a node that serves needs this; and where the operator has set
Prometheus' own directory, Prometheus' own rules hold.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from billiard import current_process
from prometheus_client import values

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
PREFIX = "calendar-metrics-"
JUST_MADE_SECONDS = 60
"""So young a directory may not be locked yet."""


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
    """A fresh one per node, which holds a lock on it while it lives; those of the dead are swept.

    Not told by process ids: a container has its own, and may share this place with others.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _sweep(old)
    maker = os.getpid()
    made = tempfile.mkdtemp(prefix=PREFIX)
    fcntl.flock(os.open(made, os.O_RDONLY), fcntl.LOCK_SH)  # the kernel lets go of it at our end

    def remove() -> None:
        if os.getpid() == maker:  # not when one of its children ends
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    os.environ[DIRECTORY] = made
    return Path(made)


def _sweep(directory: Path) -> None:
    try:
        held = os.open(directory, os.O_RDONLY)
    except OSError:  # another node was faster, or it is somebody else's
        return
    try:
        if time.time() - os.fstat(held).st_mtime > JUST_MADE_SECONDS:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
    except BlockingIOError:  # its node lives
        pass
    finally:
        os.close(held)
