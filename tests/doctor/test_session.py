"""A session's limits: those in force, and those that contradict each other (S5)."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import make_url

from app import database
from app.doctor.session import asked, transport
from tests.doctor.patient import Patient
from tests.system.tls_front import pass_on

_STARTUP = 196608  # the protocol's version 3.0, which begins a startup packet


@pytest.mark.parametrize(
    ("planted", "found", "serious"),
    [
        ("statement_timeout=0", "statement_timeout is 0: a statement has no bound (S5)", True),
        ("lock_timeout=10s", "lock_timeout is 10000 ms and statement_timeout 10000 ms", False),
        ("lock_timeout=0", "lock_timeout is 0 ms and statement_timeout 10000 ms", False),
        ("idle_in_transaction_session_timeout=0", "keeps its locks for ever", True),
        ("idle_in_transaction_session_timeout=12s", "may wait for Kafka for 12 s", True),
    ],
)
def test_limits_in_the_url_that_contradict_each_other(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, planted: str, found: str, *, serious: bool
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"{patient.url}?options=-c%20{planted}")
    [complaint] = patient.found()
    assert found in complaint.found
    assert complaint.serious is serious
    assert complaint.remedy.startswith(f"Take {planted.partition('=')[0]} out of")


def test_limits_in_the_url_that_fit_are_nobodys_business(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"{patient.url}?options=-c%20lock_timeout%3D5s")
    assert patient.found() == []


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("default_transaction_isolation = 'repeatable read'", "a stale snapshot"),
        ("default_transaction_isolation = serializable", "a stale snapshot"),
        ("default_transaction_read_only = on", "nothing can be written"),
        ("session_replication_role = replica", "our triggers do not fire"),
        ("transaction_timeout = '12s'", "a drain may wait for Kafka for 12 s"),
        ("synchronous_commit = off", "takes back expiries"),
    ],
)
def test_what_the_product_takes_for_granted(patient: Patient, planted: str, found: str) -> None:
    setting = planted.partition(" ")[0]
    if not patient.sql(f"SELECT name FROM pg_settings WHERE name = '{setting}'"):
        pytest.skip(f"this PostgreSQL does not know {setting} yet")
    patient.sql(f"ALTER DATABASE {patient.name} SET {planted}")
    [complaint] = patient.found()
    assert found in complaint.found
    assert complaint.serious
    patient.mend([complaint])
    assert patient.found() == []


@pytest.fixture
def pooler(patient: Patient) -> Iterator[int]:
    """The port of a pooler that drops the options of a connection, as PgBouncer is told to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _address = listener.accept()
                except OSError:  # the test is over
                    return
                threading.Thread(target=_pool, args=(client, patient), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _pool(client: socket.socket, patient: Patient) -> None:
    server = socket.create_connection(("127.0.0.1", patient.server.port))
    (length,) = struct.unpack("!I", client.recv(4, socket.MSG_WAITALL))
    packet = client.recv(length - 4, socket.MSG_WAITALL)
    words = packet[4:].split(b"\0")
    pairs = zip(words[::2], words[1::2], strict=False)
    kept = b"".join(b"%s\0%s\0" % pair for pair in pairs if pair[0] not in {b"options", b""})
    server.sendall(struct.pack("!II", len(kept) + 9, _STARTUP) + kept + b"\0")
    threading.Thread(target=pass_on, args=(server, client), daemon=True).start()
    pass_on(client, server)


def test_limits_that_a_pooler_drops_are_set_on_the_role_by_the_remedy(
    patient: Patient, pooler: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = patient.url.replace(f":{patient.server.port}/", f":{pooler}/")
    monkeypatch.setenv("DATABASE_URL", f"{through}?sslmode=disable&gssencmode=disable")
    assert patient.found() == []  # the role has them
    limits = [name for name in database.SESSION if name != "timezone"]  # UTC is the server's own
    patient.sql(*(f"ALTER ROLE {patient.role} RESET {name}" for name in limits))
    [complaint] = patient.found()
    assert complaint.serious
    assert "lock_timeout is 0ms instead of 2000ms" in complaint.found
    assert "enable_seqscan is on instead of off" in complaint.found
    patient.mend([complaint])
    assert patient.found() == []


def test_what_the_address_itself_switches_off() -> None:
    [found] = transport(make_url("postgresql://h/x?connect_timeout=0"))
    assert found.found.startswith("connect_timeout=0 in DATABASE_URL")
    assert found.serious
    [found] = transport(make_url("postgresql://h/x?keepalives=0"))
    assert found.found.startswith("keepalives=0 in DATABASE_URL")
    assert not found.serious
    assert list(transport(make_url("postgresql://h/x?connect_timeout=3&keepalives=1"))) == []


def test_options_are_read_in_each_of_their_spellings_and_the_last_word_wins() -> None:
    options = "-c lock_timeout=1s -clock_timeout=2s --statement-timeout=3s -c search_path=x"
    assert asked(options) == {"lock_timeout": "2s"}
