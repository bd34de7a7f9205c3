"""Prometheus from the system's packages: no wheel has it, so it may be missing."""

import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dev.servers.port import LOOPBACK
from dev.servers.process import ServerError, ServerProcess
from dev.servers.server import Server

_HTTP_SECONDS = 5.0


@dataclass(frozen=True)
class Sample:
    """One series at one moment."""

    labels: dict[str, str]
    value: float


class Prometheus(Server):
    """A Prometheus with `config`, the text of a prometheus.yml; its paths begin in `directory`.

    Its samples stay over `restart`, until `close`. Raises ServerError when it is not installed.
    """

    name: ClassVar[str] = "prometheus"

    def __init__(self, directory: Path, config: str, *, port: int | None = None) -> None:
        super().__init__(directory, port=port)
        self._config = config
        found = shutil.which(self.name)
        if found is None:
            raise ServerError("prometheus is not on the PATH (Debian's package prometheus has it)")
        self._program = found

    @property
    def data(self) -> Path:
        """The directory of its samples."""
        return self.directory / "prometheus-data"

    def query(self, expression: str) -> list[Sample]:
        """The series that a PromQL expression yields now; ServerError when it is refused."""
        found = self._get("query", query=expression)
        return [Sample(one["metric"], float(one["value"][1])) for one in found["result"]]

    def firing(self) -> dict[str, dict[str, str]]:
        """The annotations of every alert that fires now, by its name."""
        found = self._get("alerts")["alerts"]
        return {
            alert["labels"]["alertname"]: alert["annotations"]
            for alert in found
            if alert["state"] == "firing"
        }

    def close(self) -> None:
        """Stop it for good and remove its samples."""
        super().close()
        shutil.rmtree(self.data, ignore_errors=True)

    def _get(self, path: str, **parameters: str) -> Any:
        return _answer(self.port, path, parameters)

    def _launch(self, port: int) -> ServerProcess:
        config = self.directory / "prometheus.yml"
        config.write_text(self._config)
        return ServerProcess(
            self.name,
            [
                self._program,
                f"--config.file={config}",
                f"--storage.tsdb.path={self.data}",
                f"--web.listen-address={LOOPBACK}:{port}",
                "--log.level=warn",
            ],
            log=self.log_path,
        )

    def _answers(self, process: ServerProcess, port: int) -> bool:
        del process
        try:
            flags = _answer(port, "status/flags", {})
        except ServerError:
            return False
        return bool(flags["storage.tsdb.path"] == str(self.data))


def _answer(port: int, path: str, parameters: dict[str, str]) -> Any:
    address = f"http://{LOOPBACK}:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(address, timeout=_HTTP_SECONDS) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise ServerError(f"prometheus refused {path}: {error.read().decode()}") from error
    except OSError as error:
        raise ServerError(f"prometheus does not answer: {error}") from error
