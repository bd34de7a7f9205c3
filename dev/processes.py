"""The product's own processes for demo and up: started as its users start them, never left behind.

The embedded servers are `dev.servers`; here are `celery -A tasks …` and `python -m app …`, and the
end that a signal brings about.
"""

import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType, TracebackType
from urllib.parse import urlsplit

from dev.servers.launcher import end_with_launcher
from dev.servers.process import ServerError, ServerProcess

ROOT = Path(__file__).parents[1]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ORDER = ("beat", "worker", "flower")  # no new work, then finish the work in hand
_GRACE = 45.0  # seconds: a cycle finishes the items in hand
_COMMAND_SECONDS = 60.0
_HTTP_SECONDS = 5.0


class Failure(Exception):
    """Why demo or up cannot go on, as one plain sentence."""


class CeleryProcesses:
    """Worker, beat and Flower of one launcher, their logs and scratch files in `directory`."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory.resolve()
        self._scratch = self.directory / "scratch"  # a killed process leaves its files behind
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        self.environment = {**environment, "TMPDIR": str(self._scratch)}
        self._children: dict[str, ServerProcess] = {}

    def start(self, name: str, *options: str) -> None:
        """Start `celery -A tasks NAME OPTIONS` at the root of the repository."""
        log = self.log(name)
        log.unlink(missing_ok=True)
        celery = [sys.executable, "-m", "celery", "--workdir", str(ROOT), "-A", "tasks"]
        self._children[name] = ServerProcess(
            name, [*celery, name, *options], log=log, grace=_GRACE, environment=self.environment
        )

    def log(self, name: str) -> Path:
        """What this process writes."""
        return self.directory / f"{name}.log"

    def check(self) -> None:
        """Raise ServerError with the end of its log when one of them has died."""
        for child in self._children.values():
            child.check()

    def stop(self, *names: str) -> None:
        """Stop these, or all, in good order: the worker ends its work first (warm shutdown)."""
        for name in names or _ORDER:
            if name in self._children:
                self._children.pop(name).stop()

    def close(self) -> None:
        """Stop all for good; only their logs stay."""
        self.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)


class Ending(ExitStack):
    """What is to be undone at the end, whatever the end is; no further signal disturbs it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Undo, last things first."""
        for number in SIGNALS:
            signal.signal(number, _stay)
        super().__exit__(kind, error, trace)


def end_on_signals() -> None:
    """From now on a signal ends the program through its `Ending`, with the shell's exit code."""
    for number in SIGNALS:
        signal.signal(number, _leave)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _stay(_number: int, _frame: FrameType | None) -> None:
    """Not `SIG_IGN`, which children would inherit."""


def command(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run `python -m ARGV` at the root and return what it printed; Failure when it fails."""
    try:
        ran = subprocess.run(
            [sys.executable, "-m", *argv],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_SECONDS,
            preexec_fn=end_with_launcher(signal.SIGKILL),
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"`{' '.join(argv)}` took over {_COMMAND_SECONDS:.0f} s.") from None
    if ran.returncode != 0:
        raise Failure(f"`{' '.join(argv)}` failed: {last_line(ran.stderr or ran.stdout)}")
    return ran.stdout.rstrip()


def answers(url: str) -> bool:
    """Tell whether a web server answers, be it with a refusal."""
    try:
        with urllib.request.urlopen(url, timeout=_HTTP_SECONDS):  # noqa: S310 - our own loopback
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def sentence(error: ServerError) -> str:
    """What became of a process: the first line of the error, and the last one of its log."""
    first, _, log = str(error).partition("\n")
    return f"{first} {last_line(log)}".rstrip(" :")


def last_line(text: str) -> str:
    """The last line that says something; empty when none does."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def shown(path: Path) -> str:
    """A path as people at the root of the repository type it."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def without(environment: Mapping[str, str], *beginnings: str) -> dict[str, str]:
    """The environment less the variables that begin so."""
    return {name: value for name, value in environment.items() if not name.startswith(beginnings)}


def place(address: str) -> str:
    """An address for people, without its login: host, port and database."""
    if "://" not in address:
        return address
    parts = urlsplit(address)
    return parts.netloc.rpartition("@")[2] + parts.path
