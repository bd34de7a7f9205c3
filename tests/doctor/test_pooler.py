"""A real PgBouncer before PostgreSQL: what the doctor says of it, and whether that mends it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.servers.pgbouncer import Pgbouncer
from tests.doctor.patient import Patient
from tests.programs import needed

IGNORED = {"ignore_startup_parameters": "options"}

Behind = Callable[..., Pgbouncer]


@pytest.fixture
def behind(patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    """Put a PgBouncer before the patient: `DATABASE_URL` leads there, in the mode that is given."""
    needed("pgbouncer", "pgbouncer")
    with ExitStack() as running:

        def start(mode: str = "transaction", **settings: str) -> Pgbouncer:
            made = Pgbouncer(tmp_path, patient.server.port, users=[patient.role], settings=settings)
            running.enter_context(made)
            monkeypatch.setenv("DATABASE_URL", made.through(patient.url))
            monkeypatch.setenv("DATABASE_POOL_MODE", mode)
            return made

        yield start


def test_a_pooler_in_transaction_mode_that_the_settings_know_of(
    patient: Patient, behind: Behind
) -> None:
    behind()
    assert patient.found() == []


def test_one_that_refuses_what_a_session_is_to_be_set_to(
    patient: Patient, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind("session")
    [complaint] = patient.found()
    assert complaint.serious
    assert "a pooler refuses what a session is to be set to" in complaint.found
    assert "set DATABASE_POOL_MODE=transaction" in complaint.remedy
    monkeypatch.setenv("DATABASE_POOL_MODE", "transaction")
    assert patient.found() == []


@pytest.mark.parametrize(
    "sharing",
    [
        {},
        {"server_round_robin": "1", "min_pool_size": "2"},
        {"server_round_robin": "1", "min_pool_size": "3"},
    ],
    ids=["the last first", "two in turns", "three in turns"],
)
def test_one_in_transaction_mode_that_the_settings_take_for_sessions(
    patient: Patient,
    behind: Behind,
    monkeypatch: pytest.MonkeyPatch,
    sharing: dict[str, str],
) -> None:
    behind("session", **IGNORED, **sharing)
    [complaint] = patient.found()
    assert complaint.serious
    assert "This is a pooler in transaction mode" in complaint.found
    assert complaint.remedy == "Set DATABASE_POOL_MODE=transaction."
    monkeypatch.setenv("DATABASE_POOL_MODE", "transaction")
    assert patient.found() == []


def test_one_that_pools_sessions_is_nobodys_business(patient: Patient, behind: Behind) -> None:
    behind("session", pool_mode="session", **IGNORED)
    assert patient.found() == []


def test_a_mode_without_a_pooler(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_POOL_MODE", "transaction")
    [complaint] = patient.found()
    assert not complaint.serious
    assert "there is no pooler" in complaint.found
    assert complaint.remedy == "Unset DATABASE_POOL_MODE."


def test_options_in_the_url_of_a_pooler(
    patient: Patient, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    pooler = behind(**IGNORED)
    url = f"{pooler.through(patient.url)}?options=-c%20lock_timeout%3D5s"
    monkeypatch.setenv("DATABASE_URL", url)
    [complaint] = patient.found()
    assert complaint.serious
    assert complaint.found.startswith("DATABASE_URL has options")


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("RESET lock_timeout", "lock_timeout is 0ms instead of 2000ms"),
        ("RESET statement_timeout", "statement_timeout is 0ms instead of 10000ms"),
        ("RESET client_connection_check_interval", "interval is 0ms instead of 500ms"),
        ("RESET jit", "jit is on instead of off"),
        ("RESET enable_seqscan", "enable_seqscan is on instead of off"),
        ("SET idle_in_transaction_session_timeout = '12s'", "may wait for Kafka for 12 s"),
        ("SET lock_timeout = '20s'", "lock_timeout is 20000 ms and statement_timeout 10000 ms"),
    ],
)
def test_what_is_missing_on_the_role_is_set_there_by_the_remedy(
    patient: Patient, behind: Behind, planted: str, found: str
) -> None:
    patient.sql(f"ALTER ROLE {patient.role} {planted}")
    pooler = behind()
    [complaint] = patient.found()
    assert found in complaint.found
    patient.mend([complaint])
    assert patient.found() == [complaint]  # its connections are as they were opened
    pooler.console("RECONNECT")
    assert patient.found() == []


def test_limits_of_another_length_are_the_roles_own_choice(
    patient: Patient, behind: Behind
) -> None:
    for name, value in (("lock_timeout", "5s"), ("statement_timeout", "15s")):
        patient.sql(f"ALTER ROLE {patient.role} SET {name} = '{value}'")
    behind()
    assert patient.found() == []


def test_the_workers_get_the_poolers_connections_not_the_roles(
    patient: Patient, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient.sql(f"ALTER ROLE {patient.role} CONNECTION LIMIT 5")
    [complaint] = patient.found()
    assert complaint.found.endswith("the role allows 5.")
    behind(default_pool_size="5")
    assert patient.found() == []


def test_a_pooler_that_takes_nobody_any_more(patient: Patient, behind: Behind) -> None:
    behind().console("SET max_client_conn = '0'")
    [complaint] = patient.found()
    assert complaint.serious
    assert complaint.found == "PostgreSQL has no connection left for this role."
    assert "of a pooler (max_client_conn)" in complaint.remedy
