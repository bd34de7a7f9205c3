"""Where a PostgreSQL server keeps its data, and the lock that says a server lives there."""

import fcntl
import hashlib
import os
import re
import shutil
import time
from pathlib import Path

from dev.servers.account import Account, can_enter, is_private, run_as
from dev.servers.process import ServerError

_PRIVATE = Path("/var/tmp")  # noqa: S108 - ownership is checked before use
_WAIT = 15.0  # seconds a server whose launcher was killed has to end
_POLL = 0.05
_INITDB = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C")
# No wheel carries ICU; C.UTF-8 of the built-in provider sorts alike on every host.
_BUILTIN = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")
_BUILTIN_SINCE = 17


class DataDirectory:
    """The data of one server: below `directory`, or in a private place its account can reach.

    Data that is not durable is removed by `remove`, or by the next start of any server of ours
    when the launcher was killed before that. The server inherits the lock, so it is held for as
    long as the launcher or the server lives.
    """

    def __init__(self, directory: Path, account: Account | None, *, durable: bool) -> None:
        self.account = account
        self.durable = durable
        kind = "data" if durable else "scratch"  # a throw-away start never touches durable data
        self.home = directory / f"postgres-{kind}"
        if not can_enter(directory, account):
            key = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
            self.home = _PRIVATE / (_private_prefix(kind) + key)
        self.path = self.home / "data"
        self.lock = self._claim()
        if not durable:
            shutil.rmtree(self.path, ignore_errors=True)

    def _claim(self) -> int:
        """Return the descriptor of the lock once it is ours; ServerError when it stays taken."""
        _remove_abandoned()
        deadline = time.monotonic() + _WAIT
        while True:
            self.home.mkdir(mode=0o711, exist_ok=True)
            if not is_private(self.home):
                raise ServerError(
                    f"postgres: {self.home} belongs to somebody else or others may write it"
                )
            self.home.chmod(0o711)
            lock = _try_lock(self.home / "lock")
            if lock is not None:
                return lock
            if time.monotonic() > deadline:
                raise ServerError(f"postgres: another server is running on {self.home}")
            time.sleep(_POLL)

    def initialise(self, bin_dir: Path) -> None:
        """Run initdb if there is no data yet; it gets its name only when it is complete."""
        if self.path.exists():
            return
        draft = self.path.with_name("draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        if self.account is not None:
            os.chown(draft, self.account.pw_uid, self.account.pw_gid)
        speed = () if self.durable else ("--no-sync",)
        told = run_as(self.account, [bin_dir / "initdb", "--version"]).stdout
        major = int(re.findall(r"\d+", told)[0])
        locale = _BUILTIN if major >= _BUILTIN_SINCE else ()
        ran = run_as(self.account, [bin_dir / "initdb", "-D", draft, *_INITDB, *locale, *speed])
        if ran.returncode != 0:
            raise ServerError(f"initdb failed: {ran.stdout[-500:]}{ran.stderr[-1500:]}")
        draft.rename(self.path)

    def remove(self) -> None:
        """Give up the lock, and the data unless it is durable. The server must be stopped."""
        if not self.durable:
            shutil.rmtree(self.home, ignore_errors=True)
        os.close(self.lock)


def _private_prefix(kind: str) -> str:
    return f"appointment-timeout-{kind}-{os.geteuid()}-"


def _try_lock(path: Path) -> int | None:
    """Lock the file at `path`; None when somebody holds it or removed it meanwhile."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), path.stat()):
            return lock
    except OSError:  # taken, or removed with its directory
        pass
    os.close(lock)
    return None


def _remove_abandoned() -> None:
    """Remove the private throw-away data whose launcher and server are both gone."""
    for home in _PRIVATE.glob(_private_prefix("scratch") + "*"):
        if is_private(home):
            lock = _try_lock(home / "lock")
            if lock is not None:
                shutil.rmtree(home, ignore_errors=True)
                os.close(lock)
