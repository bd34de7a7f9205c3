"""What the three servers share: a directory, a port that is kept, a process, a life cycle."""

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from dev.servers.port import LOOPBACK, free_port, is_free
from dev.servers.process import ServerError, ServerProcess

_STARTS = 5  # how often a port picked by us may be snatched away before we give up


class Server(ABC):
    """A server of 127.0.0.1 with its log in `directory`.

    `port` None picks a free one at the first start; 0 until then. From then on it is kept, so
    that clients find the server again after `restart`, or after `stop` or `kill` and `start`.
    As a context manager it is started, and closed at the end.
    """

    name: ClassVar[str]
    start_timeout: ClassVar[float] = 30.0  # seconds

    def __init__(self, directory: Path, *, port: int | None = None) -> None:
        self.directory = directory.resolve()
        self.port = port or 0
        self.process: ServerProcess | None = None

    @property
    def log_path(self) -> Path:
        """The file that holds what the server wrote, of all its starts."""
        return self.directory / f"{self.name}.log"

    @property
    def running(self) -> bool:
        """Whether its process exists; a frozen one does."""
        return self.process is not None and self.process.running

    @property
    def address(self) -> str:
        """`127.0.0.1:PORT`."""
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> Self:
        """Start it and return when it answers; ServerError when it does not, or runs already."""
        if self.running:
            raise ServerError(f"{self.name} is running already on {self.address}")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._prepare()
        if self.port:
            self.process = self._start_on(self.port)
        else:
            self.process, self.port = self._start_on_any()
        try:
            self._furnish()
        except BaseException:
            self.stop()
            raise
        return self

    def _start_on_any(self) -> tuple[ServerProcess, int]:
        for _ in range(_STARTS - 1):
            port = free_port()
            try:
                return self._start_on(port), port
            except ServerError:
                if is_free(port):  # it failed for another reason than its port
                    raise
        port = free_port()
        return self._start_on(port), port

    def _start_on(self, port: int) -> ServerProcess:
        if not is_free(port):
            raise ServerError(f"{self.name}: port {port} of {LOOPBACK} is taken by another program")
        process = self._launch(port)
        try:
            process.wait_ready(lambda: self._answers(process, port), self.start_timeout)
        except BaseException:
            process.stop()
            raise
        return process

    def stop(self) -> None:
        """End it in good order; nothing to do when it does not run."""
        if self.process is not None:
            self.process.stop()

    def restart(self) -> Self:
        """Stop it and start it again on the same port."""
        self.stop()
        return self.start()

    def kill(self) -> None:
        """SIGKILL it at once, as a crash would; `start` brings it back."""
        if self.process is not None:
            self.process.kill()

    def freeze(self) -> None:
        """Let it hang: connections stay open and nothing is answered until `thaw`."""
        if self.process is not None:
            self.process.freeze()

    def thaw(self) -> None:
        """End what `freeze` began."""
        if self.process is not None:
            self.process.thaw()

    def check(self) -> None:
        """Raise ServerError with the end of the log when it was started and has died."""
        if self.process is not None:
            self.process.check()

    def close(self) -> None:
        """Stop it for good and remove what need not stay."""
        self.stop()

    def __enter__(self) -> Self:
        """Start it."""
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it, whatever happened."""
        self.close()

    def _prepare(self) -> None:  # noqa: B027 - most servers need nothing before a start
        """Make what must exist before the process starts."""

    @abstractmethod
    def _launch(self, port: int) -> ServerProcess:
        """Start the process that is to listen on `port`."""

    @abstractmethod
    def _answers(self, process: ServerProcess, port: int) -> bool:
        """Tell whether `process` itself, and not a stranger, answers on `port`."""

    def _furnish(self) -> None:  # noqa: B027 - most servers need nothing after a start
        """Make what must exist once the server answers."""
