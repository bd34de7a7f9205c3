"""A process and its descendants: PostgreSQL's backends leave its session and its group."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

_POLL = 0.01  # seconds


def _state_and_parent(pid: int) -> tuple[str, int] | None:
    """Return the state letter and parent of `pid` out of /proc, None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    state, parent = text.rpartition(")")[2].split()[:2]  # the name before it may hold anything
    return state, int(parent)


def family(pid: int) -> list[int]:
    """Return `pid` and its descendants, parents first; only `pid` where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if found := _state_and_parent(int(entry.name)):
            children.setdefault(found[1], []).append(int(entry.name))
    members = [pid]
    for member in members:  # grows while we walk it
        members += children.get(member, [])
    return members


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send `number` to each of `pids` that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_gone(pids: Iterable[int], timeout: float) -> bool:
    """Wait up to `timeout` seconds until none of `pids` runs; a zombie counts as gone."""
    deadline = time.monotonic() + timeout
    waiting = list(pids)
    while waiting := [pid for pid in waiting if (_state_and_parent(pid) or "Z")[0] != "Z"]:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True
