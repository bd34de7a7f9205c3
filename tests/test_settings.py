"""The environment: names, defaults, and one plain sentence for what is wrong."""

import re
from pathlib import Path

import pytest
from sqlalchemy import make_url

from app import database, settings
from app.environment import SettingsError
from app.settings import (
    AppointmentTimeoutSettings,
    BrokerSettings,
    DatabaseSettings,
    KafkaSettings,
    OutboxSettings,
    TelemetrySettings,
    TracingSettings,
)

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of our variables set."""
    for name, _default, _meaning in settings.table():
        monkeypatch.delenv(name, raising=False)


def test_defaults_are_the_contracted_ones() -> None:
    timeout, outbox = AppointmentTimeoutSettings.load(), OutboxSettings.load()
    assert timeout.appointment_timeout_interval_seconds == 60
    assert timeout.appointment_timeout_batch_size == 200
    assert timeout.appointment_timeout_max_duration_seconds == 30
    assert timeout.appointment_timeout_catch_up is False
    assert outbox.outbox_publisher_interval_seconds == 10
    assert outbox.outbox_retention_days == 7
    assert outbox.job_runs_retention_days == 7
    assert TelemetrySettings.load().log_format == "json"


@pytest.mark.parametrize("group", [DatabaseSettings, BrokerSettings, KafkaSettings])
def test_a_missing_variable_is_named(group: type[DatabaseSettings]) -> None:
    variable = next(iter(group.model_fields)).upper()
    with pytest.raises(SettingsError, match=f"^{variable} is not set"):
        group.load()


@pytest.mark.parametrize(
    ("group", "variable", "value"),
    [
        (AppointmentTimeoutSettings, "APPOINTMENT_TIMEOUT_BATCH_SIZE", "0"),
        (AppointmentTimeoutSettings, "APPOINTMENT_TIMEOUT_BATCH_SIZE", "many"),
        (AppointmentTimeoutSettings, "APPOINTMENT_TIMEOUT_INTERVAL_SECONDS", "-1"),
        (AppointmentTimeoutSettings, "APPOINTMENT_TIMEOUT_INTERVAL_SECONDS", "nan"),
        (AppointmentTimeoutSettings, "APPOINTMENT_TIMEOUT_MAX_DURATION_SECONDS", "inf"),
        (AppointmentTimeoutSettings, "APPOINTMENT_TIMEOUT_CATCH_UP", "perhaps"),
        (OutboxSettings, "OUTBOX_RETENTION_DAYS", "week"),
        (TelemetrySettings, "LOG_FORMAT", "xml"),
        (TelemetrySettings, "METRICS_PORT", "99999"),
        (BrokerSettings, "CELERY_BROKER_URL", "amqp://s3cret@host"),
        (BrokerSettings, "CELERY_BROKER_URL", "sentinel://:s3cret@host:26379/0"),
        (DatabaseSettings, "DATABASE_URL", "postgresql://u:s3cret@host/"),
        (DatabaseSettings, "DATABASE_URL", "postgresql+psycopg://u:s3cret@host/x"),
        (DatabaseSettings, "DATABASE_URL", "postgresql://u:p@host:s3cret/x"),
        (TracingSettings, "OTEL_EXPORTER_OTLP_ENDPOINT", "s3cret@collector:4318"),
        (TracingSettings, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://u:s3cret@collector"),
        (TracingSettings, "OTEL_EXPORTER_OTLP_HEADERS", "api-key: s3cret"),
        (TracingSettings, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", 'api-key="s3cret"'),
        (TracingSettings, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        (TracingSettings, "OTEL_SDK_DISABLED", "perhaps"),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_variable_and_not_the_value(
    monkeypatch: pytest.MonkeyPatch, group: type[DatabaseSettings], variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as refused:
        group.load()
    told = str(refused.value)
    assert re.fullmatch(rf"{variable} is wrong: .+\.", told)
    assert "s3cret" not in told


@pytest.mark.parametrize(
    ("variables", "on"),
    [
        ({}, False),
        ({"ENDPOINT": "http://collector:4318"}, True),
        ({"TRACES_ENDPOINT": "https://collector/v1/traces"}, True),
        ({"PROTOCOL": "grpc", "TRACES_PROTOCOL": "http/protobuf"}, False),
        ({"ENDPOINT": "http://collector:4318", "HEADERS": "api-key=a%20b, x = y,"}, True),
    ],
)
def test_an_endpoint_turns_traces_on_and_the_variable_for_traces_alone_wins(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, on: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", value)
    assert TracingSettings.load().on is on
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    assert TracingSettings.load().on
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert not TracingSettings.load().on
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not TracingSettings.load().on


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg2"])
def test_both_spellings_of_the_database_url_mean_psycopg2(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"{scheme}://u:s3cret@host:5432/calendar")
    loaded = DatabaseSettings.load()
    assert loaded.url.drivername == "postgresql+psycopg2"
    assert "s3cret" not in repr(loaded)


def test_what_the_operator_wrote_into_the_url_wins() -> None:
    url = make_url("postgresql+psycopg2://h/x?options=-c%20lock_timeout%3D9s")
    arguments = database.connect_arguments(url)
    assert arguments["options"].endswith("-c lock_timeout=9s")
    assert "connect_timeout" in arguments
    arguments = database.connect_arguments(make_url("postgresql://h/x?connect_timeout=1"))
    assert "connect_timeout" not in arguments


def test_the_page_lists_every_variable_with_its_default_and_no_other() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    listed = [line for line in page.splitlines() if re.match(r"\| `[A-Z_]+` \|", line)]
    rows = []
    for name, default, meaning in settings.table():
        shown = {None: "–", True: "on", False: "off"}.get(default, default)
        rows.append(f"| `{name}` | {shown} | {meaning} |")
    assert listed == rows, "\n".join(rows)
