"""The worker's log as `make up` shows it: line by line as it comes, less what says nothing new."""

import re
from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

_RECORD = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\S+ )\[(?P<level>\w+) *\] (?P<event>.+?) +\[(?P<logger>[\w.]+)\]"
)
# Celery's own two lines for every tick, most of which find nothing to do.
_DULL = {"celery.worker.strategy", "celery.app.trace"}
_COLOURS = {"critical": "bold red", "error": "bold red", "warning": "bold yellow", "info": "bold"}


class WorkerLog:
    """The file that a worker appends to; what stands before its first record is a banner."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._begun = False

    def new_lines(self) -> Iterator[Text]:
        """The complete lines since the last call."""
        with self._path.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):  # its rest is still to come
                    return
                self._read += len(line)
                shown = self._shown(line.decode(errors="replace").rstrip())
                if shown is not None:
                    yield shown

    def _shown(self, line: str) -> Text | None:
        record = _RECORD.match(line)
        if record is None:  # the banner, or more of a record: a traceback
            return Text(line, "red") if self._begun else None
        self._begun = True
        if record["level"] == "info" and record["logger"] in _DULL:
            return None
        shown = Text(line, "dim")
        shown.stylize(f"not dim {_COLOURS.get(record['level'], '')}", *record.span("event"))
        return shown
