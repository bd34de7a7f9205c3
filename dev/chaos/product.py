"""The product's processes: beat and two prefork workers, each to be killed and started at will."""

import signal
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from dev.chaos.diary import Diary
from dev.processes import ROOT
from dev.servers.family import family, signal_all
from dev.servers.process import ServerError, ServerProcess

BEAT = "beat"
WORKERS = ("worker-a", "worker-b")

_GRACE = 45.0  # seconds for a warm shutdown, as in docker-compose.yml
_READY_SECONDS = 120.0
_READY = {"worker": " ready.", "beat": "beat: Starting"}


class Product:
    """Celery processes by name (`worker-a`, `beat`); the part before the dash is the command."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.environment = dict(environment)
        self.processes: dict[str, ServerProcess] = {}
        self._diaries: dict[str, Diary] = {}
        self._torn = directory / "torn-schedule"  # beat must not mind the file of a killed one
        self._torn.write_bytes(b"\0torn")

    def start(self, *names: str, **variables: str) -> None:
        """Start these side by side, with further environment variables; return when all work."""
        for name in names:
            self._launch(name, variables)
        for name in names:
            self._wait_ready(name)

    def _launch(self, name: str, variables: Mapping[str, str]) -> None:
        command = name.partition("-")[0]
        options = ["-n", f"{name}@%h"] if command == "worker" else ["-s", str(self._torn)]
        celery = [sys.executable, "-m", "celery", "--workdir", str(ROOT), "-A", "tasks", command]
        self._diaries[name] = Diary(self.log(name))
        self.processes[name] = ServerProcess(
            name,
            [*celery, *options],
            log=self.log(name),
            grace=_GRACE,
            environment={**self.environment, **variables},
        )

    def _wait_ready(self, name: str) -> None:
        diary, ready = self._diaries[name], _READY[name.partition("-")[0]]
        self.processes[name].wait_ready(lambda: diary.shows(ready), _READY_SECONDS)

    def log(self, name: str) -> Path:
        """What this process, in all its lives, has written."""
        return self.directory / f"{name}.log"

    def stop(self, *names: str) -> float:
        """TERM these, once, side by side, and wait for their end; the seconds that took."""
        began = time.monotonic()
        stopped = [self.processes.pop(name) for name in names]
        with ThreadPoolExecutor() as threads:
            list(threads.map(ServerProcess.stop, stopped))
        seconds = time.monotonic() - began
        if wrong := {process.name: process.exit_code for process in stopped if process.exit_code}:
            raise ServerError(f"stopped with TERM, these ended with another code than 0: {wrong}")
        return seconds

    def kill(self, name: str) -> None:
        """SIGKILL it with its children, as a crash of the host would."""
        self.processes.pop(name).kill()

    def kill_children(self, name: str) -> int:
        """SIGKILL the children of a worker and leave it alone; how many there were."""
        children = family(self.processes[name].pid)[1:]
        signal_all(children, signal.SIGKILL)
        return len(children)

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """It hangs for the block, with its children."""
        process = self.processes[name]
        process.freeze()
        try:
            yield
        finally:
            process.thaw()

    def dead(self) -> list[str]:
        """Those that should run and have ended by themselves, or do not run at all."""
        gone = [name for name, process in self.processes.items() if not process.running]
        return [*gone, *({*WORKERS, BEAT} - self.processes.keys())]

    def close(self) -> None:
        """Stop all of them side by side, whatever state they are in."""
        with suppress(ServerError):
            self.stop(*self.processes)

    def turn_page(self) -> None:
        """From now on `at_work` means the time after this moment."""
        for name in WORKERS:
            self._diaries[name].turn_page()

    def at_work(self) -> bool:
        """Whether on every worker a run has succeeded since, and those of before have ended."""
        return all(self._diaries[name].all_well() for name in WORKERS)
