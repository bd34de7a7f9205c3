"""The worker processes of a bench, as the one sees them who gives them work."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dev.bench.figure import StructureError
from dev.processes import ROOT
from dev.servers.launcher import end_with_launcher


class WorkerProcess:
    """One `dev.bench.worker`; what it logs goes to `log`."""

    def __init__(self, environment: Mapping[str, str], log: Path, *, observed: bool) -> None:
        self._log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "dev.bench.worker", *(["--observed"] if observed else [])],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                preexec_fn=end_with_launcher(signal.SIGKILL),  # noqa: PLW1509 - two C calls
            )
        self.do("ready")

    def begin(self, command: str, **values: object) -> None:
        """Give it work, and do not wait."""
        assert self._child.stdin is not None  # noqa: S101 - a pipe, as asked for
        self._child.stdin.write(json.dumps({"do": command, **values}) + "\n")
        self._child.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What came of it."""
        assert self._child.stdout is not None  # noqa: S101
        line = self._child.stdout.readline()
        if not line:
            raise StructureError(f"a worker died: {self._log.read_text()[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def do(self, command: str, **values: object) -> dict[str, Any]:
        """Give it work and wait for the answer."""
        self.begin(command, **values)
        return self.answer()

    def close(self) -> None:
        """Its input ends, and so does it."""
        self._child.communicate()

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, whatever happened."""
        if error is not None:
            self._child.kill()
        self.close()


def side_by_side(
    workers: Sequence[WorkerProcess], command: str, **values: object
) -> list[dict[str, Any]]:
    """All of them at once."""
    for worker in workers:
        worker.begin(command, **values)
    return [worker.answer() for worker in workers]
