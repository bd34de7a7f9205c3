"""Real Celery processes of the product, or of another app, for the tests that need processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from celery import Celery

from dev.servers.process import ServerProcess
from tests.neighbour import wait_until

CELERY = Path(sys.executable).parent / "celery"
READY = {"worker": " ready.", "beat": "beat: Starting", "flower": "Visit me at"}


class CeleryProcess:
    """`celery -A APP worker`, `beat` or `flower`; `log` holds all that it printed."""

    def __init__(
        self,
        command: str,
        *options: str,
        environment: Mapping[str, str],
        directory: Path,
        around: Sequence[str] = (),
        app: str = "tasks",
    ) -> None:
        self.log = directory / f"{command}-{len(list(directory.glob('*.log')))}.log"
        self.process = ServerProcess(
            command,
            [*around, CELERY, "-A", app, command, *options],
            log=self.log,
            grace=30,
            environment=environment,
        )
        self.process.wait_ready(lambda: READY[command] in self.text, 60)

    @property
    def text(self) -> str:
        """Everything printed so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The structured log lines of this name."""
        parsed = (json.loads(line) for line in self.text.splitlines() if line.startswith("{"))
        return [line for line in parsed if line.get("event") == event]

    def children(self) -> list[int]:
        """The process ids of the pool's children."""
        found = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return [int(pid) for pid in found.stdout.split()]

    def wait_exit(self) -> int | None:
        """Its exit code, once it is gone."""
        wait_until(lambda: not self.process.running, "the process does not end")
        return self.process.exit_code

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.process.pid, number)


@contextmanager
def celery(
    command: str,
    *options: str,
    environment: Mapping[str, str],
    directory: Path,
    around: Sequence[str] = (),
    app: str = "tasks",
) -> Iterator[CeleryProcess]:
    """One process, gone at the end of the block; `around` is a command that runs it."""
    started = CeleryProcess(
        command, *options, environment=environment, directory=directory, around=around, app=app
    )
    try:
        yield started
    finally:
        started.process.kill()


def call(task: str, environment: Mapping[str, str], *options: str) -> str:
    """`celery -A tasks call`: the id of the run."""
    done = subprocess.run(
        [CELERY, "-A", "tasks", "call", task, *options],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def tick(
    task: str,
    environment: Mapping[str, str],
    expires: float | None = None,
    headers: Mapping[str, object] | None = None,
) -> str:
    """The same without a process of its own: what beat sends."""
    with Celery(broker=environment["CELERY_BROKER_URL"], set_as_current=False) as sender:
        sent = sender.send_task(
            task, queue=task, expires=expires, headers=headers, ignore_result=True
        )
    return str(sent.id)


def app(
    *arguments: str, environment: Mapping[str, str], code: int = 0
) -> subprocess.CompletedProcess[str]:
    """`python -m app …`, which must end with this exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return done
