"""The three servers together, or those that the environment names instead."""

import fcntl
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from dev.servers.database import database_exists
from dev.servers.kafka import Kafka
from dev.servers.postgres import Postgres
from dev.servers.process import ServerError
from dev.servers.server import Server
from dev.servers.valkey import Valkey

DATABASE_URL = "DATABASE_URL"
CELERY_BROKER_URL = "CELERY_BROKER_URL"
KAFKA_BOOTSTRAP_SERVERS = "KAFKA_BOOTSTRAP_SERVERS"


class Stack:
    """PostgreSQL, Valkey and Kafka for one launcher; `environment` says where they are.

    A server that `given` (by default the process's environment) names by one of the three
    variables is used as it is, and its attribute here is None; the others are started in
    `directory`, each on its port or on a free one. `topics` and `database` are made on embedded
    servers only.
    """

    def __init__(  # noqa: PLR0913 - all but one have defaults
        self,
        directory: Path,
        *,
        durable: bool = False,
        topics: Mapping[str, int] | None = None,
        database: str = "calendar",
        postgres_port: int | None = None,
        valkey_port: int | None = None,
        kafka_port: int | None = None,
        postgres_settings: Mapping[str, str] | None = None,
        given: Mapping[str, str] = os.environ,
    ) -> None:
        names = (DATABASE_URL, CELERY_BROKER_URL, KAFKA_BOOTSTRAP_SERVERS)
        self.directory = directory.resolve()
        self.database = database
        self.postgres: Postgres | None = None
        self.valkey: Valkey | None = None
        self.kafka: Kafka | None = None
        self._given = {name: given[name] for name in names if given.get(name)}
        self._lock: int | None = None
        if DATABASE_URL not in self._given:
            self.postgres = Postgres(
                directory, port=postgres_port, durable=durable, settings=postgres_settings
            )
        if CELERY_BROKER_URL not in self._given:
            self.valkey = Valkey(directory, port=valkey_port)
        if KAFKA_BOOTSTRAP_SERVERS not in self._given:
            self.kafka = Kafka(directory, port=kafka_port, topics=topics)

    @property
    def servers(self) -> list[Server]:
        """The embedded ones."""
        return [one for one in (self.postgres, self.valkey, self.kafka) if one is not None]

    @property
    def environment(self) -> dict[str, str]:
        """The three variables, for the settings of a process that is to use the stack."""
        found = dict(self._given)
        if self.postgres is not None:
            found[DATABASE_URL] = self.postgres.url(self.database)
        if self.valkey is not None:
            found[CELERY_BROKER_URL] = self.valkey.url
        if self.kafka is not None:
            found[KAFKA_BOOTSTRAP_SERVERS] = self.kafka.bootstrap
        return found

    def start(self) -> Self:
        """Start the embedded servers together; ServerError, with none left, when one fails."""
        self._claim()
        try:
            # Safe from short-lived threads: the launcher thread does the forking.
            with ThreadPoolExecutor() as threads:
                for started in [threads.submit(server.start) for server in self.servers]:
                    started.result()
            if self.postgres and not database_exists(self.postgres.url(), self.database):
                self.postgres.create_database(self.database)
        except BaseException:
            self.stop()
            raise
        return self

    def _claim(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.directory / "stack.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ServerError(f"a stack is already running in {self.directory}") from None
        self._lock = lock

    def check(self) -> None:
        """Raise ServerError with the end of its log when an embedded server died."""
        for server in self.servers:
            server.check()

    def stop(self) -> None:
        """Stop the embedded servers for good; data that is not durable is removed."""
        try:
            with ThreadPoolExecutor() as threads:
                for stopped in [threads.submit(server.close) for server in self.servers]:
                    stopped.result()
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it, whatever happened."""
        self.stop()
