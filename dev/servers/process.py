"""One server process: started, awaited, stopped, killed or frozen; never left behind."""

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from pwd import struct_passwd

from dev.servers.family import family, signal_all, wait_gone
from dev.servers.launcher import Child, end_with_launcher, launch

# Nothing of the caller's environment reaches a server: OTEL_*, PG*, LISTENER_URL and the like
# would configure it.
ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "HOME": "/", "LC_ALL": "C", "TZ": "UTC"}

_POLL = 0.02  # seconds between two looks at a server that starts
_TAIL = 2000  # bytes of log shown with an error
_DEATH = 10.0  # seconds the kernel has to bury what was killed


class ServerError(Exception):
    """An embedded server is missing, did not start, or died; the message says which and why."""


class ServerProcess:
    """One running child in a session of its own, so that a Ctrl-C reaches the launcher only.

    `stop_signal` asks it to end and `grace` is how many seconds it has for that;
    `death_signal` is what it gets when the launcher dies, for whatever reason (Linux only).
    `account` is whom it runs as (None: ourselves), `keep` are descriptors it inherits.
    It may be made from any thread: see `launcher`.
    Raises ServerError when the program cannot be run.
    """

    def __init__(  # noqa: PLR0913 - each is one fact about the child
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        log: Path,
        stop_signal: signal.Signals = signal.SIGTERM,
        death_signal: signal.Signals = signal.SIGKILL,
        grace: float = 10.0,
        account: struct_passwd | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
        keep: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        self._stop_signal = stop_signal
        self._grace = grace
        self._thawer: Child | None = None
        self._log_start = log.stat().st_size if log.exists() else 0

        def start() -> Child:
            with log.open("ab") as output:
                return subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd="/",
                    env=environment,
                    start_new_session=True,
                    pass_fds=keep,
                    user=account.pw_uid if account else None,
                    group=account.pw_gid if account else None,
                    extra_groups=[] if account else None,
                    preexec_fn=end_with_launcher(death_signal),  # noqa: PLW1509 - two C calls
                )

        try:
            self._child = launch(start)
        except OSError as error:
            raise ServerError(f"{name}: cannot run {argv[0]}: {error.strerror}") from error

    @property
    def pid(self) -> int:
        """The process id, also after the end."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the process exists; a frozen one does."""
        return self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended (a signal's number negated); None while it runs."""
        return self._child.poll()

    def wait_ready(self, probe: Callable[[], bool], timeout: float) -> None:
        """Poll `probe` until it is true; ServerError when the server died or `timeout` s passed."""
        deadline = time.monotonic() + timeout
        while not probe():
            self.check()
            if time.monotonic() > deadline:
                raise ServerError(
                    f"{self.name} is not ready after {timeout:.0f} s:\n{self.log_tail()}"
                )
            time.sleep(_POLL)

    def check(self) -> None:
        """Raise ServerError with the end of the log when the process is gone."""
        if not self.running:
            raise ServerError(
                f"{self.name} exited with status {self._child.returncode}:\n{self.log_tail()}"
            )

    def log_tail(self) -> str:
        """Return the end of what this process, not one before it, wrote to its log."""
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[self._log_start :][-_TAIL:].decode(errors="replace")

    def stop(self, stop_signal: signal.Signals | None = None, grace: float | None = None) -> None:
        """Ask it to end, wait `grace` seconds, then kill it; nothing to do when it is gone."""
        self.thaw()
        if self.running:
            self._child.send_signal(stop_signal or self._stop_signal)
            try:
                self._child.wait(self._grace if grace is None else grace)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL it and its children at once, as a crash would, and wait until they are gone."""
        if self.running:
            self._child.send_signal(signal.SIGSTOP)  # no more children while we count them
            members = family(self.pid)
            signal_all(members, signal.SIGKILL)
            self._child.wait(_DEATH)
            wait_gone(members, _DEATH)
        self.thaw()

    def freeze(self) -> None:
        """SIGSTOP it and its children: clients stay connected and get no answer.

        A stopped process does not hear that its launcher died. So a shell waits beside it for
        the end of a pipe that only we hold, and thaws it when we are gone.
        """
        if self._thawer is None and self.running:
            self._child.send_signal(signal.SIGSTOP)
            members = [str(pid) for pid in family(self.pid)]
            thaw = ["/bin/sh", "-c", 'read -r _; kill -CONT "$@"', "thaw", *members]
            self._thawer = subprocess.Popen(
                thaw,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            signal_all([int(pid) for pid in members], signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT it and its children; nothing to do when it was not frozen."""
        if self._thawer is not None:
            self._thawer.communicate()
            self._thawer = None
