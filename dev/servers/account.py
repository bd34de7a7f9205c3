"""Whom PostgreSQL runs as, whether that account gets where it must, and binaries it can run.

PostgreSQL refuses to run as root, so root starts it as an unprivileged account. That account
often cannot enter a virtualenv below /root or a test's private directory.
"""

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dev.servers.process import ENVIRONMENT, ServerError

Account = pwd.struct_passwd

_CANDIDATES = ("postgres", "nobody", "daemon")
_PLACES = ("/var/tmp", "/tmp", "/dev/shm")  # noqa: S108 - ownership is checked before use
_UNUSED = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "doc")


def service_account() -> Account | None:
    """Return the account for PostgreSQL: None is ourselves, otherwise one that root becomes.

    Raises ServerError where there is none, or no right to become it.
    """
    if os.geteuid() != 0:
        _require_own_entry()
        return None
    for name in _CANDIDATES:
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        if account.pw_uid != 0:
            _require_change_of_user(account)
            return account
    raise ServerError(
        f"postgres refuses to run as root and none of {', '.join(_CANDIDATES)} exists here"
    )


def _require_own_entry() -> None:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise ServerError(
            f"user {os.geteuid()} has no entry in the password database, which initdb needs"
        ) from None


def _require_change_of_user(account: Account) -> None:
    try:
        run_as(account, ["/bin/sh", "-c", ":"])
    except OSError:
        raise ServerError(
            f"we are root but may not become {account.pw_name}: run as an ordinary user instead"
        ) from None


def run_as(account: Account | None, argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run a short program as `account` (None: ourselves) and return its status and output.

    Raises OSError when it cannot be executed or the account cannot be changed.
    """
    return subprocess.run(
        argv,
        cwd="/",
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
    )


def can_enter(directory: Path, account: Account | None) -> bool:
    """Tell whether `account` may pass through the existing `directory` and all above it."""
    entered = run_as(account, ["/bin/sh", "-c", 'cd "$1"', "sh", directory])
    return entered.returncode == 0


def _can_execute(bin_dir: Path, account: Account) -> bool:
    try:  # initdb needs what the server needs, and libpq too
        return run_as(account, [bin_dir / "initdb", "--version"]).returncode == 0
    except OSError:  # not reachable for it, or a place mounted noexec
        return False


def usable_binaries(bin_dir: Path, account: Account | None) -> Path:
    """Return `bin_dir`, or a copy of its installation whose programs `account` can execute.

    The copy is kept below /var/tmp for the next start. Raises ServerError when no place serves.
    """
    if account is None or _can_execute(bin_dir, account):
        return bin_dir
    installed = f"{bin_dir.resolve()}|{(bin_dir / 'postgres').stat().st_mtime_ns}"
    key = hashlib.sha256(installed.encode()).hexdigest()[:12]
    for place in _PLACES:
        copy = Path(place) / f"appointment-timeout-postgres-{key}"
        copied_bin = copy / bin_dir.relative_to(bin_dir.parents[2])
        if not os.path.lexists(copy):
            _copy_installation(bin_dir, copy)
        if is_private(copy) and _can_execute(copied_bin, account):
            return copied_bin
    raise ServerError(
        f"{account.pw_name} cannot execute {bin_dir} nor a copy of it in {', '.join(_PLACES)}"
    )


def is_private(directory: Path) -> bool:
    """Tell whether `directory` is a real directory of ours that nobody else may write."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    foreign = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not foreign


def _copy_installation(bin_dir: Path, copy: Path) -> None:
    """Copy PACKAGE/pginstall, and PACKAGE.libs where its programs look for their libraries."""
    install, package = bin_dir.parent, bin_dir.parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    try:
        draft = Path(tempfile.mkdtemp(prefix=f"{copy.name}-", dir=copy.parent))
    except OSError:  # no such place here
        return
    try:
        shutil.copytree(install, draft / package.name / install.name, ignore=_UNUSED)
        if libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name)
        _open_to_all(draft)
        draft.rename(copy)
    except OSError:  # no room; or another start finished first, and its copy serves
        shutil.rmtree(draft, ignore_errors=True)


def _open_to_all(top: Path) -> None:
    top.chmod(0o755)
    for path in top.rglob("*"):
        if not path.is_symlink():
            runs = path.is_dir() or path.parent.name == "bin" or ".so" in path.name
            path.chmod(0o755 if runs else 0o644)
