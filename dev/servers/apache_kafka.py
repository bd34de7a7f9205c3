"""Real Apache Kafka 4 (KRaft, one node), out of its Maven jars: keeps its log over restarts."""

import base64
import shutil
import signal
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from dev.servers import maven
from dev.servers.account import run_as
from dev.servers.binaries import program
from dev.servers.kafka import Kafka
from dev.servers.port import LOOPBACK, free_port
from dev.servers.process import ServerError, ServerProcess

VERSION = "4.1.0"

_JARS = (("org.apache.kafka", "kafka_2.13", VERSION), ("org.slf4j", "slf4j-simple", "1.7.36"))
_JVM = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # a test's broker lives for minutes: its start counts
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_GRACE = 30.0  # seconds for a controlled shutdown


class ApacheKafka(Kafka):
    """A broker with `topics`, name to number of partitions; it never makes others by itself.

    Clients are sent to `advertised`, a port of 127.0.0.1 (None: its own), so that a proxy can
    stand before it. The log stays over `restart`, `kill` and `start`, until `close`. `settings`
    win over ours.
    Raises ServerError when mvn or java is missing.
    """

    name: ClassVar[str] = "apache-kafka"
    start_timeout: ClassVar[float] = 120.0  # a JVM on a busy host, and a log to recover

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        topics: Mapping[str, int] | None = None,
        advertised: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, port=port, topics=topics)
        self.advertised = advertised
        self.settings = dict(settings or {})
        self._java = program("java", "Apache Kafka")
        self._class_path = maven.class_path("Apache Kafka", _JARS)
        self._cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._controller = 0
        self._furnished = False

    @property
    def data(self) -> Path:
        """The directory of its log."""
        return self.directory / "apache-kafka-data"

    def close(self) -> None:
        """End it for good, at once: what a shutdown would save is removed."""
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)
        self._furnished = False

    def _launch(self, port: int) -> ServerProcess:
        self._controller = self._controller or free_port()
        properties = self.directory / "apache-kafka.properties"
        settings = self._settings(port)
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if not self.data.exists():
            self._format(properties)
        return ServerProcess(
            self.name,
            self._command("kafka.Kafka", str(properties)),
            log=self.log_path,
            stop_signal=signal.SIGTERM,
            grace=_GRACE,
        )

    def _settings(self, port: int) -> dict[str, str]:
        controller = f"{LOOPBACK}:{self._controller}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{self.advertised or port}",
            "log.dirs": str(self.data),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            **self.settings,
        }

    def _format(self, properties: Path) -> None:
        tool = self._command(
            "kafka.tools.StorageTool", "format", f"--cluster-id={self._cluster}", "-c"
        )
        ran = run_as(None, [*tool, str(properties)])
        if ran.returncode != 0:
            shutil.rmtree(self.data, ignore_errors=True)
            said = f"{ran.stdout}{ran.stderr}".strip()[-1500:]
            raise ServerError(f"{self.name}: cannot format its storage: {said}")

    def _command(self, *arguments: str) -> list[str]:
        return [self._java, *_JVM, "-cp", self._class_path, *arguments]

    def _furnish(self) -> None:
        if not self._furnished:  # the log keeps them
            super()._furnish()
            self._furnished = True
