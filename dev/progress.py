"""Shows how far a long run is: a status line in a terminal, lines that stay anywhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status


class Progress:
    """Says what happens, with the minutes since the beginning."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()
        self._chapter = ""
        self._status: Status | None = None
        if console.is_interactive and console.file.isatty():
            self._status = console.status("starting")

    def __enter__(self) -> Self:
        """Begin."""
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear the status line."""
        if self._status is not None:
            self._status.stop()

    def chapter(self, title: str) -> None:
        """What the next phases belong to."""
        self._chapter = title

    def phase(self, doing: str) -> None:
        """What happens now."""
        if self._status is not None:
            self._status.update(f"{self.clock()} {self._chapter}: {doing}")

    def say(self, sentence: str) -> None:
        """A line that stays."""
        self.console.print(f"[dim]{self.clock()}[/] {sentence}")

    def clock(self) -> str:
        """Minutes and seconds since the beginning."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes:3}:{seconds:02}"
