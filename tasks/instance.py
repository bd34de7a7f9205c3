"""What one worker node shares with all its children or threads: the stop flag and the job slots.

Made in the node's main process before its pool forks, so that it belongs to this node alone and
leaves with it: a slot is a kernel lock on a file that has no name, free again the moment its holder
dies, with nothing to wait for and nothing to clean up.
"""

import fcntl
import mmap
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.store.runs import Job


class Slot:
    """Room for one run of a job on this node (S1); never waited for.

    A record lock belongs to a process, so it tells children apart; a thread lock tells threads
    apart. Both vanish with the process.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the node
        self._threads = threading.Lock()

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Whether the slot is ours until the end of the block."""
        if not self._threads.acquire(blocking=False):
            yield False
            return
        try:
            ours = self._lock_file()
            try:
                yield ours
            finally:
                if ours:
                    fcntl.lockf(self._file, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def _lock_file(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another child of this node is at work
            return False
        return True


class Instance:
    """One worker node; `serving` when it has begun, in good health, to take our tasks."""

    def __init__(self) -> None:
        self.serving = False
        self._stop = mmap.mmap(-1, 1)  # one shared byte: no lock, so a signal handler may set it
        self._slots = {job: Slot() for job in Job}

    def slot(self, job: Job) -> Slot:
        """The node's slot for this job."""
        return self._slots[job]

    def request_stop(self) -> None:
        """Ask all runs on this node to end after the item in hand (S5)."""
        self._stop[0] = 1

    def stopping(self) -> bool:
        """Whether the node has been asked to stop."""
        return self._stop[0] == 1
