"""A command as somebody sees it who sits at a terminal."""

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence

from dev.processes import ROOT


def seen(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Its exit code, and all that it showed."""
    ours, theirs = pty.openpty()
    environment = {**environment, "TERM": "xterm", "COLUMNS": "150"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(60), shown.decode()
