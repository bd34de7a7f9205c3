"""PostgreSQL as a server: in reach, the right one, durable, vacuumed, with room for the workers."""

import socket
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest
from psycopg2.errors import OperationalError
from sqlalchemy.exc import OperationalError as Wrapped

from app.doctor import examine, postgres, upkeep
from app.store.server import Server
from dev.servers.database import autocommit
from dev.servers.port import free_port
from dev.servers.proxy import Proxy
from tests.doctor.conftest import MAX_CONNECTIONS
from tests.doctor.patient import Patient
from tests.neighbour import Neighbour, wait_until

# -- The way there


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (("//postgres@", "//nobody@"), "its role does not exist"),
        (("/template1", "/nowhere"), "its database does not exist"),
        (("127.0.0.1", "no-such-host.invalid"), "its host is unknown here"),
    ],
)
def test_an_address_that_leads_nowhere(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, wrong: tuple[str, str], found: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", patient.server.url("template1").replace(*wrong))
    [complaint] = patient.found()
    assert found in complaint.found
    assert complaint.serious


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://u:s3cret@127.0.0.1:{free_port()}/x")
    [complaint] = examine("postgresql")
    assert "nobody listens" in complaint.found
    assert "s3cret" not in f"{complaint}"


def test_a_host_that_never_answers_costs_seconds_even_if_the_url_wants_no_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("DATABASE_URL", f"postgresql://u@{address}/x?connect_timeout=0")
        unbounded, unanswered = Neighbour(lambda: list(examine("postgresql"))).result()
    assert unbounded.found.startswith("connect_timeout=0")
    assert "its host does not answer" in unanswered.found


def test_a_server_that_hangs_while_it_is_examined_ends_the_examination(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(patient.server.port) as proxy:
        through = patient.url.replace(f":{patient.server.port}/", f":{proxy.port}/")
        monkeypatch.setenv("DATABASE_URL", through)
        original = upkeep.durability

        def hang(connection: object) -> object:
            proxy.freeze()
            return original(connection)  # type: ignore[arg-type]

        monkeypatch.setattr(upkeep, "LOOKS", (hang, upkeep.vacuum))
        [complaint] = patient.found()
    assert "could not be examined" in complaint.found


def test_a_password_that_is_refused(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = patient.server.data.path / "pg_hba.conf"
    before = rules.read_text()
    patient.sql(f"ALTER ROLE {patient.role} PASSWORD 'right'")
    rules.write_text(f"host all {patient.role} 127.0.0.1/32 scram-sha-256\n{before}")
    try:
        patient.sql("SELECT pg_reload_conf()")

        def refused(password: str) -> bool:
            url = patient.url.replace("@", f"{password}@")
            monkeypatch.setenv("DATABASE_URL", url)
            return [complaint.found for complaint in patient.found()] == [
                "DATABASE_URL leads to no connection: the user or the password is refused."
            ]

        wait_until(lambda: refused(":wr0ng"), "a wrong password is refused")
        monkeypatch.setenv("DATABASE_URL", patient.url)
        assert "a password is wanted" in patient.found()[0].found
        assert not refused(":right")
    finally:
        rules.write_text(before)
        patient.sql("SELECT pg_reload_conf()")


def test_a_role_that_may_not_log_in(patient: Patient) -> None:
    patient.sql(f"ALTER ROLE {patient.role} NOLOGIN")
    [complaint] = patient.found()
    assert "its role may not log in" in complaint.found


def test_a_role_without_a_connection_left(patient: Patient) -> None:
    patient.sql(f"ALTER ROLE {patient.role} CONNECTION LIMIT 0")
    [complaint] = patient.found()
    assert complaint.found == "PostgreSQL has no connection left for this role."
    assert "CONNECTION LIMIT" in complaint.remedy


def test_what_libpq_says_in_other_words_is_told_without_them() -> None:
    complaint = postgres.refused(Wrapped("", {}, OperationalError("something about s3cret")))
    assert "s3cret" not in f"{complaint}"
    assert "cannot be reached" in complaint.found


def test_a_pooler_that_refuses_the_options() -> None:
    """In PgBouncer's words, which no wheel brings."""
    said = "FATAL:  unsupported startup parameter: options"
    complaint = postgres.refused(Wrapped("", {}, OperationalError(said)))
    assert "a pooler refuses" in complaint.found
    assert "ops/postgres/worker-role.sql" in complaint.remedy


# -- The right server


def test_a_server_that_is_too_old_cannot_serve() -> None:
    [complaint] = postgres.judged(Server(130_013, standby=False, now=datetime.now(UTC)))
    assert complaint.found.startswith("PostgreSQL is of version 13;")
    assert list(postgres.judged(Server(140_000, standby=False, now=datetime.now(UTC)))) == []


def test_a_standby_is_the_wrong_server(patient: Patient) -> None:
    signal = patient.server.data.path / "standby.signal"
    patient.server.stop()
    signal.touch()
    try:
        patient.server.start()
        [complaint] = patient.found()
        assert complaint.found.startswith("PostgreSQL is a standby")
        assert complaint.serious
    finally:
        patient.server.stop()
        signal.unlink()
        patient.server.start()
    assert patient.found() == []


@pytest.mark.parametrize(("seconds", "told"), [(8, "behind"), (-8, "ahead of"), (2, ""), (-2, "")])
def test_a_clock_that_differs_is_warned_of(seconds: int, told: str) -> None:
    complaints = list(upkeep.clock(datetime.now(UTC) + timedelta(seconds=seconds)))
    assert [f"s {told} PostgreSQL's" in complaint.found for complaint in complaints] == (
        [True] if told else []
    )
    assert not any(complaint.serious for complaint in complaints)


# -- As it is kept


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "autovacuum", "track_counts"])
def test_what_is_off_in_the_whole_server_is_switched_on_by_the_remedy(
    patient: Patient, name: str
) -> None:
    def off() -> bool:
        return [f"{name} is off:" in complaint.found for complaint in patient.found()] == [True]

    try:
        patient.sql(f"ALTER SYSTEM SET {name} = off", "SELECT pg_reload_conf()")
        wait_until(off, f"{name} is off")
        [complaint] = patient.found()
        assert complaint.serious
        patient.mend([complaint])
        wait_until(lambda: patient.found() == [], f"{name} is on again")
    finally:
        patient.sql(f"ALTER SYSTEM RESET {name}", "SELECT pg_reload_conf()")


def test_autovacuum_off_on_a_table(patient: Patient) -> None:
    patient.sql("ALTER TABLE calendar.outbox_messages SET (autovacuum_enabled = 0)")
    [complaint] = patient.found()
    assert "autovacuum is off on calendar.outbox_messages" in complaint.found
    patient.mend([complaint])
    assert patient.found() == []


def test_a_transaction_that_was_forgotten(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with autocommit(patient.server.url(patient.name)) as other:
        other.execute("SET application_name = 'forgetful'; BEGIN; SELECT pg_current_xact_id()")
        assert patient.found() == []  # it is young
        monkeypatch.setattr(upkeep, "OLD_SECONDS", 0.0)
        [complaint] = patient.found()
        assert "(forgetful) has been open for" in complaint.found
        assert not complaint.serious
        patient.mend([complaint])
        assert patient.found() == []


def test_a_prepared_transaction_that_was_forgotten(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient.sql("BEGIN", "SELECT pg_current_xact_id()", f"PREPARE TRANSACTION 'o''{patient.name}'")
    monkeypatch.setattr(upkeep, "OLD_SECONDS", 0.0)
    [complaint] = patient.found()
    assert complaint.found.startswith(f"The prepared transaction o'{patient.name}")
    patient.mend([complaint])
    assert patient.found() == []


def test_a_replication_slot_that_nobody_reads(patient: Patient) -> None:
    patient.sql(f"SELECT pg_create_physical_replication_slot('{patient.name}', true)")
    [complaint] = patient.found()
    assert f"the replication slot {patient.name}: it keeps" in complaint.found
    assert not complaint.serious
    patient.mend([complaint])
    assert patient.found() == []


# -- With room


@pytest.mark.parametrize("whose", ["DATABASE", "ROLE"])
def test_a_limit_below_what_a_worker_node_uses(patient: Patient, whose: str) -> None:
    name = patient.name if whose == "DATABASE" else patient.role
    patient.sql(f"ALTER {whose} {name} CONNECTION LIMIT 12")
    [complaint] = patient.found()
    assert f"may use 13 connections, and the {whose.lower()} allows 12" in complaint.found
    assert not complaint.serious
    patient.mend([complaint])
    assert patient.found() == []
    patient.sql(f"ALTER {whose} {name} CONNECTION LIMIT 3")
    assert [complaint.serious for complaint in patient.found()] == [True]


def test_more_lanes_than_the_server_has_room_for(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPOINTMENT_TIMEOUT_CONNECTIONS", "32")
    [complaint] = patient.found()
    assert f"the server allows {MAX_CONNECTIONS - 3}" in complaint.found
    monkeypatch.setenv("APPOINTMENT_TIMEOUT_CONNECTIONS", "16")
    assert patient.found() == []


def test_a_server_that_is_crowded(patient: Patient) -> None:
    with ExitStack() as crowd:
        for _ in range(MAX_CONNECTIONS - 5):
            connection = psycopg2.connect(patient.server.url(patient.name))
            crowd.callback(connection.close)
        [complaint] = patient.found()
        assert f"of {MAX_CONNECTIONS - 3} connections of the server are taken" in complaint.found
        assert not complaint.serious
    wait_until(lambda: patient.found() == [], "the crowd has left")
