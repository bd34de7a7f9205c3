"""A PostgreSQL as managed ones are: by TLS alone, for an owner with a password (SCRAM)."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from sqlalchemy import make_url

from app.doctor import examine
from dev.servers.database import autocommit
from dev.servers.postgres import Postgres
from dev.servers.postgres_release import RELEASES
from tests.certificates import Certificates, issue
from tests.neighbour import wait_until
from tests.programs import needed
from tests.system.celery_process import app

SECRET = "m4naged-s3cret"  # noqa: S105 - of a server that lives for a test
ACCESS = "hostssl all managed 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Of an empty database; the wheel's server knows no TLS."""
    needed("mvn", "maven")
    certificates = issue(tmp_path)
    with Postgres(tmp_path, version=max(RELEASES), durable=False) as server:
        secure(server, certificates)
        address = make_url(server.url("calendar")).set(
            username="managed",
            password=SECRET,
            query={"sslmode": "verify-full", "sslrootcert": str(certificates.authority)},
        )
        yield address.render_as_string(hide_password=False)


def secure(server: Postgres, certificates: Certificates) -> None:
    """From now on it takes the owner by TLS only."""
    owner = server.data.path.stat()
    for name, source in (("server.crt", certificates.chain), ("server.key", certificates.key)):
        placed = server.data.path / name
        shutil.copyfile(source, placed)
        placed.chmod(0o600)
        os.chown(placed, owner.st_uid, owner.st_gid)
    (server.data.path / "pg_hba.conf").write_text(ACCESS)
    with autocommit(server.url()) as cursor:
        cursor.execute(f"CREATE ROLE managed LOGIN PASSWORD '{SECRET}'")
        cursor.execute("CREATE DATABASE calendar OWNER managed")
        cursor.execute("ALTER SYSTEM SET ssl = on")
        cursor.execute("SELECT pg_reload_conf()")

    def in_force() -> bool:
        with autocommit(server.url()) as cursor:
            cursor.execute("SHOW ssl")
            return cursor.fetchone() == ("on",)

    wait_until(in_force, "it has read its settings anew")


def test_a_database_by_verified_tls_with_a_password(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"PATH": os.environ["PATH"], "DATABASE_URL": url}
    app("migrate", environment=environment)
    app("health", environment=environment)
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    right = make_url(url)
    for wrong, why in (
        (right.set(password="wr0ng"), "the user or the password is refused"),  # noqa: S106
        (right.update_query_dict({"sslrootcert": str(other)}), "TLS fails"),
        (right.set(query={"sslmode": "disable"}), "its user may not come from here"),
    ):
        monkeypatch.setenv("DATABASE_URL", wrong.render_as_string(hide_password=False))
        [complaint] = examine("postgresql")
        assert why in complaint.found
        assert SECRET not in complaint.found
