"""A warmed-up process without threads that forks a victim for every order: no interpreter starts.

Engine and producer are made after the fork. `python -m tests.crash.nursery` is the process,
`Nursery` is how tests speak to it: a line of JSON there, a line of JSON back once the victim is
dead or done.
"""

import gc
import json
import os
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.crash.points import Point
from tests.crash.victim import Order, live, order_of, values_of

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Fate:
    """What became of a victim: `status` as `os.waitstatus_to_exitcode` has it."""

    status: int
    struck: bool
    report: dict[str, Any] | None
    points: list[Point]
    error: str | None


class Nursery:
    """The process, from the first order on until the end of the block."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def fork(self, order: Order) -> Fate:
        """Let a victim live through this order; returns when it is gone."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(values_of(order)), file=self._process.stdin, flush=True)
        said = json.loads(self._process.stdout.readline())
        return Fate(
            status=said["status"],
            struck=said.get("struck", False),
            report=said.get("report"),
            points=[Point(*point) for point in said.get("points", [])],
            error=said.get("error"),
        )


def main() -> None:
    """Fork a victim per line."""
    gc.freeze()  # what is here now stays shared with all of them
    for line in sys.stdin:
        print(json.dumps(_fate(order_of(json.loads(line)))), flush=True)  # noqa: T201


def _fate(order: Order) -> dict[str, Any]:
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ear)
        _live(order, mouth)
    os.close(mouth)
    with os.fdopen(ear) as voice:
        heard = [json.loads(line) for line in voice]
    _, status = os.waitpid(child, 0)
    fate: dict[str, Any] = {"status": os.waitstatus_to_exitcode(status)}
    for said in heard:
        fate |= said
    return fate


def _live(order: Order, mouth: int) -> None:
    """In the child: never returns."""

    def say(said: dict[str, Any]) -> None:
        os.write(mouth, json.dumps(said).encode() + b"\n")

    try:
        live(order, say)
    except BaseException:  # noqa: BLE001 - told to the test
        say({"error": traceback.format_exc()})
    os._exit(0)


if __name__ == "__main__":
    main()
