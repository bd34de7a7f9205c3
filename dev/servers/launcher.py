"""The one thread that starts every child, and the tie that ends the child with its launcher.

Linux sends a child its "parent died" signal when the *thread* that forked it exits, not the
process. A server started from a short-lived thread would die with that thread, so every child
is started from one daemon thread that lives as long as the process does. Other systems have no
such signal: there a launcher that was killed leaves its servers behind.
"""

import ctypes
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from subprocess import Popen

Child = Popen[bytes]
Start = Callable[[], Child]

_PR_SET_PDEATHSIG = 1
# Loaded before any fork: the child may not load libraries between fork and exec.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def end_with_launcher(death_signal: signal.Signals) -> Callable[[], None]:
    """Return what a child runs just before its exec to get `death_signal` when we die.

    It must run after the change of user, which clears the setting: `Popen` sees to that.
    """
    launcher = os.getpid()

    def arrange() -> None:
        if _prctl is None:
            return
        _prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != launcher:  # it died before the call: nobody will send the signal
            os._exit(1)

    return arrange


class _LauncherThread(threading.Thread):
    """Runs what it is handed, in turn, for as long as the process lives."""

    def __init__(self) -> None:
        super().__init__(name="server-launcher", daemon=True)
        self.requests: queue.SimpleQueue[tuple[Start, Future[Child]]] = queue.SimpleQueue()

    def run(self) -> None:
        while True:
            start, outcome = self.requests.get()
            try:
                outcome.set_result(start())
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller
                outcome.set_exception(error)


_lock = threading.Lock()
_thread: _LauncherThread | None = None


def launch(start: Start) -> Child:
    """Call `start` on the launcher thread; return its child or raise its error."""
    global _thread  # noqa: PLW0603 - one thread a process
    outcome: Future[Child] = Future()
    with _lock:
        if _thread is None or not _thread.is_alive():  # a fork of us inherits no thread
            _thread = _LauncherThread()
            _thread.start()
        _thread.requests.put((start, outcome))
    return outcome.result()
