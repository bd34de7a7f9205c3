"""`python -m app doctor`, as an operator and as a program use it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import InternalError

from app import database, doctor
from app.store import server
from dev.servers.kafka import Kafka
from dev.servers.port import free_port
from dev.servers.valkey import Valkey
from tests.doctor.patient import Patient
from tests.terminal import seen
from tests.world import World

ROOT = Path(__file__).parents[2]
SKEWED_CLOCK = ROOT / "dev" / "chaos" / "skewed_clock.py"
Environment = dict[str, str]


@pytest.fixture
def healthy(patient: Patient, valkey: Valkey, kafka: Kafka) -> Environment:
    """All is well, and a cycle has just ended."""
    engine = database.engine(make_url(patient.url).set(drivername="postgresql+psycopg2"), 6)
    World(engine).run()
    engine.dispose()
    return {
        "DATABASE_URL": patient.url,
        "CELERY_BROKER_URL": valkey.url,
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap,
    }


def examined(
    environment: Environment, *arguments: str, code: int = 0, **more: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "app", "doctor", *arguments],
        cwd=ROOT,
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def document(environment: Environment, code: int = 0, **more: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(examined(environment, "--json", code=code, **more).stdout)
    return found


def test_a_healthy_product_has_no_complaint(healthy: Environment) -> None:
    done = examined(healthy)
    assert done.stderr == ""
    *lines, last = done.stdout.splitlines()
    assert lines == [f"✓ {patient:<10}  ok" for patient in doctor.PATIENTS]
    assert last == "0 serious complaints, 0 warnings."
    assert document(healthy) == {"serious": 0, "warnings": 0, "complaints": [], "unexamined": {}}


def test_no_patient_hides_what_another_one_has(healthy: Environment, patient: Patient) -> None:
    patient.sql(f"REVOKE SELECT ON calendar.brake FROM {patient.role}")
    lines = examined(
        healthy, code=1, KAFKA_BOOTSTRAP_SERVERS=f"127.0.0.1:{free_port()}"
    ).stdout.splitlines()
    role = f"The role {patient.role} lacks the privilege SELECT ON calendar.brake."
    at = lines.index(f"✗ postgresql  {role}")
    assert (
        lines[at + 1]
        .strip()
        .startswith(f"remedy: `GRANT SELECT ON calendar.brake TO {patient.role}`")
    )
    assert any(line.startswith("✗ kafka       Kafka cannot be reached") for line in lines)
    assert "✓ redis       ok" in lines
    assert any(line.startswith("– work        not examined: PostgreSQL refused") for line in lines)
    assert lines[-1] == "2 serious complaints, 0 warnings."


def test_warnings_do_not_fail(healthy: Environment) -> None:
    done = examined(healthy, OUTBOX_PUBLISHER_INTERVAL_SECONDS="61")
    assert "! settings    warning: The outbox drains every 61 s only" in done.stdout
    assert done.stdout.endswith("0 serious complaints, 1 warning.\n")


def test_json_is_one_document(healthy: Environment) -> None:
    found = document(healthy, code=1, CELERY_BROKER_URL="", LOG_FORMAT="xml")
    assert (found["serious"], found["warnings"]) == (2, 0)
    assert found["complaints"][0] == {
        "part": "settings",
        "found": "CELERY_BROKER_URL is not set.",
        "remedy": (
            "Set CELERY_BROKER_URL: Redis (or Valkey) as the Celery broker, and nothing else."
        ),
        "serious": True,
    }
    assert found["unexamined"] == dict.fromkeys(
        ["celery", "redis"], "CELERY_BROKER_URL is not set."
    )


def test_no_secret_is_told(healthy: Environment) -> None:
    secret = "s3cret/w@rd"  # noqa: S105
    broken = {
        "DATABASE_URL": f"postgresql://u:{secret}@127.0.0.1:{free_port()}/x",
        "CELERY_BROKER_URL": f"redis://:{secret}@127.0.0.1:{free_port()}/0",
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_MECHANISM": "PLAIN",
        "KAFKA_SASL_USERNAME": "u",
        "KAFKA_SASL_PASSWORD": secret,
    }
    for arguments in ([], ["--json"]):
        done = examined(healthy, *arguments, code=1, **broken)
        assert "w@rd" not in done.stdout + done.stderr
        assert "s3cret" not in done.stdout + done.stderr


def test_a_clock_that_differs(healthy: Environment, tmp_path: Path) -> None:
    shutil.copy(SKEWED_CLOCK, tmp_path / "sitecustomize.py")
    found = document(healthy, PYTHONPATH=str(tmp_path), CHAOS_CLOCK_SHIFT="30")
    [complaint] = found["complaints"]
    assert complaint["found"].endswith("ahead of PostgreSQL's: ticks may be discarded as too old.")
    assert not complaint["serious"]


def test_a_terminal_without_the_signs_is_told_as_well(healthy: Environment) -> None:
    assert "? redis       ok" in examined(healthy, PYTHONIOENCODING="ascii").stdout


def test_a_terminal_sees_who_is_examined(healthy: Environment) -> None:
    code, shown = seen([sys.executable, "-m", "app", "doctor"], healthy)
    assert code == 0
    assert "Looking at kafka …" in shown
    assert "✓ kafka       ok" in shown


def test_wrong_usage_is_exit_2() -> None:
    examined({}, "--nonsense", code=2)


def test_what_nobody_has_foreseen_is_a_complaint_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stumble() -> Any:
        raise LookupError("s3cret")

    monkeypatch.setattr(doctor, "PATIENTS", {"work": stumble})
    [complaint] = doctor.examine("work")
    assert complaint.found == "The examination ended with an unforeseen LookupError."
    assert complaint.serious


def test_postgresql_itself_keeps_a_look_from_writing(patient: Patient) -> None:
    engine = database.engine(make_url(patient.url).set(drivername="postgresql+psycopg2"), 1)
    with (
        engine.connect() as connection,
        pytest.raises(InternalError, match="read-only transaction"),
        server.look(connection),
    ):
        connection.execute(text("DELETE FROM calendar.brake"))
    engine.dispose()
