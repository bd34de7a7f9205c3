"""What pytest-celery's nodes ask of a container, answered by a process of this machine."""

import os
import signal as signals
from collections.abc import Callable
from typing import Any

from pytest_celery import CeleryTestContainer

from dev.servers.process import ServerProcess
from dev.servers.valkey import Valkey
from tests.system.celery_process import CeleryProcess


class ProcessContainer(CeleryTestContainer):  # type: ignore[misc]
    """A process under a container's name. No Docker client is ever made."""

    def __init__(self) -> None:  # not the parent's, which wants a container of Docker's
        pass

    def _process(self) -> ServerProcess:
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The process's name."""
        return self._process().name

    @property
    def id(self) -> str:
        """Which process it is."""
        return str(self._process().pid)

    @property
    def status(self) -> str:
        """As Docker says it."""
        return "running" if self._process().running else "exited"

    def ready(self) -> bool:
        """It is, once it has been made."""
        return self._process().running

    def reload(self) -> None:
        """Nothing is cached."""

    def logs(self) -> str:
        """All that it has printed."""
        return self._process().log.read_text(errors="replace")

    def kill(self, signal: str) -> None:
        """Send it the signal of this name."""
        os.kill(self._process().pid, signals.Signals[signal])


class BrokerProcess(ProcessContainer):
    """Valkey as the broker."""

    def __init__(self, server: Valkey) -> None:
        super().__init__()
        self._server = server

    def _process(self) -> ServerProcess:
        assert self._server.process is not None
        return self._server.process

    @property
    def celeryconfig(self) -> dict[str, Any]:
        """Where it is; the same for everybody on this machine."""
        url = self._server.url
        place = {"hostname": "127.0.0.1", "port": self._server.port, "vhost": "0"}
        return {"url": url, "host_url": url, **place}

    def restart(self, **_timeout: float) -> None:
        """Anew on the same port, and empty."""
        self._server.restart()


class WorkerProcess(ProcessContainer):
    """`celery -A tasks worker`."""

    def __init__(self, start: Callable[[], CeleryProcess]) -> None:
        super().__init__()
        self._worker = start()

    def _process(self) -> ServerProcess:
        return self._worker.process
