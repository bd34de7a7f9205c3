"""How much of the disk a run takes: a full one may take 20 GB, and tells what it took."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dev.bench.figure import StructureError

LIMIT_BYTES = 20 * 10**9
_LOOK_SECONDS = 0.5


@dataclass
class Room:
    """What a run takes of a disk; what others write there meanwhile counts too."""

    taken: int = 0
    """Bytes, at the highest."""

    def require(self) -> None:
        """StructureError when it is more than a run may take."""
        if self.taken > LIMIT_BYTES:
            raise StructureError(f"it took {gigabytes(self.taken)} of disk, more than it may")


@contextmanager
def watched(directory: Path) -> Iterator[Room]:
    """Watch the disk under a directory for as long as the block lasts."""
    room, ended = Room(), threading.Event()
    before = shutil.disk_usage(directory).used

    def look_on() -> None:
        while not ended.wait(_LOOK_SECONDS):
            room.taken = max(room.taken, shutil.disk_usage(directory).used - before)

    watch = threading.Thread(target=look_on, name="room", daemon=True)
    watch.start()
    try:
        yield room
    finally:
        ended.set()
        watch.join()


def too_small(directory: Path) -> str | None:
    """Why a full run must not begin here; None: it may."""
    free = shutil.disk_usage(directory).free
    if free >= LIMIT_BYTES:
        return None
    return (
        f"A full run may take {gigabytes(LIMIT_BYTES)} of disk, and only {gigabytes(free)} are free"
        f" under {directory}: make room, or run it with --short."
    )


def gigabytes(size: int) -> str:
    """For people."""
    return f"{size / 10**9:.1f} GB"
