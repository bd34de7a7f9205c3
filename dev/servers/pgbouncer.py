"""PgBouncer from the system's packages, in transaction mode: no wheel has it."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psycopg2

from dev.servers.account import can_enter, service_account
from dev.servers.binaries import program
from dev.servers.database import autocommit
from dev.servers.port import LOOPBACK
from dev.servers.process import ServerProcess
from dev.servers.server import Server

_REACHED = Path("/var/tmp")  # noqa: S108 - a directory of its own is made there
_ADMIN = "postgres"


class Pgbouncer(Server):
    """A pooler in front of the PostgreSQL at `behind`, for `users` without a password.

    `settings` are of its section [pgbouncer], and win over ours. Like PostgreSQL it refuses to
    run as root. Raises ServerError when it is not installed.
    """

    name: ClassVar[str] = "pgbouncer"

    def __init__(
        self,
        directory: Path,
        behind: int,
        *,
        users: Sequence[str] = (),
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, port=port)
        self._behind = behind
        self._users = {_ADMIN, *users}
        self._program = program(self.name, "the pooler")
        self._account = service_account()
        self._home: Path | None = None
        self.settings = dict(settings or {})

    def through(self, url: str) -> str:
        """The same user and database, by way of it."""
        parts = urlsplit(url)
        return parts._replace(netloc=f"{parts.username}@{self.address}").geturl()

    def console(self, command: str) -> list[tuple[Any, ...]]:
        """Say it to its administration console; what it answers."""
        return _said(self.port, command)

    def close(self) -> None:
        """Stop it for good."""
        super().close()
        if self._home is not None and self._home != self.directory:
            shutil.rmtree(self._home)
        self._home = None

    def _prepare(self) -> None:
        if self._home is not None:
            return
        self._home = self.directory
        if not can_enter(self.directory, self._account):
            self._home = Path(tempfile.mkdtemp(prefix="appointment-timeout-pooler-", dir=_REACHED))
            self._home.chmod(0o755)

    def _launch(self, port: int) -> ServerProcess:
        home = self._home or self.directory
        configuration, users = home / "pgbouncer.ini", home / "users.txt"
        users.write_text("".join(f'"{user}" ""\n' for user in sorted(self._users)))
        chosen = {
            "listen_addr": LOOPBACK,
            "listen_port": str(port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(users),
            "admin_users": _ADMIN,
            "pool_mode": "transaction",
            "server_login_retry": "1",  # seconds; a server that comes back is met soon
            **self.settings,
        }
        lines = [f"{name} = {value}" for name, value in chosen.items()]
        databases = f"[databases]\n* = host={LOOPBACK} port={self._behind}\n[pgbouncer]"
        configuration.write_text("\n".join([databases, *lines, ""]))
        argv: list[str | Path] = [self._program, configuration]
        return ServerProcess(self.name, argv, log=self.log_path, account=self._account)

    def _answers(self, process: ServerProcess, port: int) -> bool:
        del process  # where the port is taken, it ends
        try:
            return bool(_said(port, "SHOW VERSION"))
        except psycopg2.OperationalError:
            return False


def _said(port: int, command: str) -> list[tuple[Any, ...]]:
    with autocommit(f"postgresql://{_ADMIN}@{LOOPBACK}:{port}/pgbouncer") as cursor:
        cursor.execute(command)
        return cursor.fetchall() if cursor.description else []
