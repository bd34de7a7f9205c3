"""The environment: every fault of it, not only the first, and what contradicts itself."""

import pytest

from app.doctor import examine
from app.doctor.complaint import Complaint

SERVERS = {
    "DATABASE_URL": "postgresql://h/x",
    "CELERY_BROKER_URL": "redis://h/0",
    "KAFKA_BOOTSTRAP_SERVERS": "h:9092",
}


def complaints(monkeypatch: pytest.MonkeyPatch, **variables: str) -> list[Complaint]:
    for name, value in {**SERVERS, **variables}.items():
        monkeypatch.setenv(name, value)
    return list(examine("settings"))


def test_nothing_is_wrong_with_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert complaints(monkeypatch) == []


def test_every_variable_that_is_missing_is_named_with_its_meaning() -> None:
    found = list(examine("settings"))
    assert [one.found for one in found] == [f"{name} is not set." for name in SERVERS]
    assert all(one.serious for one in found)
    assert found[0].remedy == (
        "Set DATABASE_URL: PostgreSQL, as postgresql://user:password@host:port/database."
    )


def test_every_variable_that_is_wrong_is_named_and_no_value_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = complaints(
        monkeypatch,
        DATABASE_URL="postgresql://u:p@h:s3cret/x",
        CELERY_BROKER_URL="amqp://s3cret@h",
        APPOINTMENT_TIMEOUT_BATCH_SIZE="s3cret",
        APPOINTMENT_TIMEOUT_CONNECTIONS="99",
        OUTBOX_RETENTION_DAYS="-1",
        LOG_FORMAT="s3cret",
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="s3cret",
    )
    assert [one.found.partition(" is wrong: ")[0] for one in found] == [
        "DATABASE_URL",
        "CELERY_BROKER_URL",
        "APPOINTMENT_TIMEOUT_BATCH_SIZE",
        "APPOINTMENT_TIMEOUT_CONNECTIONS",
        "OUTBOX_RETENTION_DAYS",
        "LOG_FORMAT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    ]
    assert "s3cret" not in f"{found}"
    assert "(default 200)" in found[2].remedy


@pytest.mark.parametrize(
    ("variables", "found", "serious"),
    [
        ({"APPOINTMENT_TIMEOUT_INTERVAL_SECONDS": "30"}, "ticks are skipped (S1)", False),
        ({"OUTBOX_PUBLISHER_INTERVAL_SECONDS": "61"}, "The outbox drains every 61 s only", False),
        ({"APPOINTMENT_TIMEOUT_PAUSE_ABOVE_OVERDUE": "0"}, "nothing ever expires", True),
        ({"APPOINTMENT_TIMEOUT_PAUSE_ABOVE_SECONDS": "90"}, "ordinary days pull it", True),
        ({"APPOINTMENT_TIMEOUT_BATCHSIZE": "5"}, "is set, and nothing reads it", False),
    ],
)
def test_variables_that_contradict_each_other(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], found: str, *, serious: bool
) -> None:
    [complaint] = complaints(monkeypatch, **variables)
    assert found in complaint.found
    assert complaint.serious is serious


@pytest.mark.parametrize(
    "variables",
    [
        {"APPOINTMENT_TIMEOUT_INTERVAL_SECONDS": "31"},
        {"OUTBOX_PUBLISHER_INTERVAL_SECONDS": "60"},
        {"APPOINTMENT_TIMEOUT_PAUSE_ABOVE_OVERDUE": "1"},
        {"APPOINTMENT_TIMEOUT_PAUSE_ABOVE_SECONDS": "91"},
    ],
)
def test_variables_that_just_fit(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    assert complaints(monkeypatch, **variables) == []


def test_a_misspelt_variable_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    [complaint] = complaints(monkeypatch, APPOINTMENT_TIMEOUT_BATCHSIZE="5")
    assert complaint.remedy == "Rename it to APPOINTMENT_TIMEOUT_BATCH_SIZE, or remove it."
