"""A worker's log, read as it grows: which runs are under way, and whether new ones succeed."""

import re
from pathlib import Path

_NEWS = re.compile(
    rb"calendar\.\w+\[(?P<run>[0-9a-f-]{36})\](?P<received> received)?"
    # The end of a run whose child was killed; the line does not say which run.
    rb"|(?P<lost>Task handler raised error: WorkerLostError)"
    # A broken connection: the runs just received, and not begun, go back to the queue.
    rb"|Restoring (?P<restored>\d+) unacknowledged"
    rb'|(?P<success>"outcome": "completed")'
)


class Diary:
    """Knows of each run that the worker has received whether it has ended, however it did."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._place = log.stat().st_size if log.exists() else 0
        self._under_way: dict[bytes, None] = {}  # in the order of their arrival
        self._awaited: set[bytes] = set()
        self._succeeded = False
        self._lost = 0

    def turn_page(self) -> None:
        """From now on `all_well` means the time after this moment."""
        self._read()
        self._awaited = set(self._under_way)
        self._succeeded = False

    def all_well(self) -> bool:
        """Whether what was under way at `turn_page` has ended, and a run has succeeded since."""
        self._read()
        return self._succeeded and len(self._awaited & self._under_way.keys()) <= self._lost

    def shows(self, words: str) -> bool:
        """Whether it was written in this life of the worker, or since the last look."""
        return words.encode() in self._read()

    def _read(self) -> bytes:
        """The whole lines that are new."""
        if not self.log.exists():
            return b""
        with self.log.open("rb") as log:
            log.seek(self._place)
            news = log.read()
        news = news[: news.rfind(b"\n") + 1]
        self._place += len(news)
        for found in _NEWS.finditer(news):
            self._note(found)
        return news

    def _note(self, found: re.Match[bytes]) -> None:
        if found["received"]:
            self._under_way[found["run"]] = None
        elif found["run"]:  # later lines tell of its end
            self._under_way.pop(found["run"], None)
        elif found["restored"]:
            for _ in range(min(int(found["restored"]), len(self._under_way))):
                self._under_way.popitem()
        else:
            self._lost += bool(found["lost"])
            self._succeeded = self._succeeded or bool(found["success"])
