"""TLS and passwords reach the clients, and no secret reaches a log, an event or an argument."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import trustme
from redis import Redis
from sqlalchemy import make_url, text

from app import database
from app.doctor import examine
from dev.servers.port import free_port
from dev.servers.postgres import Postgres
from dev.servers.valkey import Valkey
from tests.certificates import Certificates, issue
from tests.neighbour import wait_until
from tests.system.celery_process import app, tick
from tests.system.conftest import Start
from tests.system.tls_front import TlsFront
from tests.world import World

TASK = "calendar.appointment_timeout"
REDIS_SECRET = "r3dis-s3cret"  # noqa: S105 - the test looks for them everywhere
DATABASE_SECRET = "d4tabase-s3cret"  # noqa: S105
SECRETS = (REDIS_SECRET, DATABASE_SECRET)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    """Fresh ones for the test."""
    return issue(tmp_path)


@pytest.fixture
def secured_database(
    world: World, postgres: Postgres, database_name: str, certificates: Certificates
) -> Iterator[str]:
    """The test's database by TLS with a verified certificate, and with a password in its URL."""
    world.execute(f"CREATE ROLE {database_name} SUPERUSER LOGIN PASSWORD '{DATABASE_SECRET}'")
    plain = make_url(postgres.url(database_name))
    front = TlsFront(certificates.chain, certificates.key, postgres.port, asked=True)
    address = plain.set(
        username=database_name,
        password=DATABASE_SECRET,
        port=front.port,
        query={"sslmode": "verify-full", "sslrootcert": str(certificates.authority)},
    )
    yield address.render_as_string(hide_password=False)
    front.close()
    world.execute(f"DROP ROLE {database_name}")


@pytest.fixture
def secured_broker(certificates: Certificates, tmp_path: Path) -> Iterator[str]:
    """A broker by TLS with a verified certificate, for a user without an administrator's rights."""
    with Valkey(tmp_path / "valkey") as server:
        with Redis.from_url(server.url) as client:
            rights = ["~*", "&*", "+@all", "-@admin", "-@dangerous", "+info"]
            client.execute_command("ACL", "SETUSER", "worker", "on", f">{REDIS_SECRET}", *rights)
            client.execute_command("ACL", "SETUSER", "default", "off")
        front = TlsFront(certificates.chain, certificates.key, server.port)
        yield (
            f"rediss://worker:{REDIS_SECRET}@127.0.0.1:{front.port}/0"
            f"?ssl_cert_reqs=required&ssl_ca_certs={quote(str(certificates.authority), safe='')}"
        )
        front.close()


def test_the_database_url_carries_tls_beside_our_own_limits(secured_database: str) -> None:
    engine = database.engine(make_url(secured_database).set(drivername="postgresql+psycopg2"), 1)
    with engine.begin() as connection:
        assert connection.connection.dbapi_connection.info.ssl_in_use  # type: ignore[union-attr]
        assert connection.execute(text("SHOW lock_timeout")).scalar() == database.LOCK_TIMEOUT
    engine.dispose()


def test_the_doctor_examines_a_broker_by_tls(
    secured_broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", secured_broker)
    assert list(examine("redis")) == []


def test_a_certificate_of_another_authority_is_refused(
    secured_database: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    url = make_url(secured_database).update_query_dict({"sslrootcert": str(other)})
    told = app(
        "status",
        environment={
            "PATH": os.environ["PATH"],
            "DATABASE_URL": url.render_as_string(hide_password=False),
        },
        code=1,
    )
    assert told.stderr.startswith("PostgreSQL cannot be reached")
    assert DATABASE_SECRET not in told.stderr


def test_the_stack_works_by_tls_with_passwords_and_no_secret_is_ever_shown(
    world: World,
    start: Start,
    environment: dict[str, str],
    secured_database: str,
    secured_broker: str,
) -> None:
    secured = {"DATABASE_URL": secured_database, "CELERY_BROKER_URL": secured_broker}
    worker = start("worker", **secured)
    beat = start("beat", **secured)
    flower = start("flower", f"--port={free_port()}", FLOWER_UNAUTHENTICATED_API="1", **secured)
    poison, healthy = world.appointment(slot_status="Available"), world.appointment()
    tick(TASK, {**environment, **secured})
    wait_until(lambda: world.status(healthy) == "Expired", "an expiry by TLS")
    wait_until(lambda: worker.lines("item failed"), f"the failure of {poison.appointment}")
    status = app("status", environment={**environment, **secured}).stdout
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    ours = [line for line in processes.stdout.splitlines() if "valkey-server" not in line]
    for shown in (worker.text, beat.text, flower.text, status, *ours):
        for secret in SECRETS:
            assert secret not in shown
