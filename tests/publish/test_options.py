"""`KAFKA_…` variables: options pass, strangers are ignored, promises cannot be broken (O2)."""

import os

import pytest

from app import kafka, kafka_options
from app.environment import SettingsError
from app.settings import KafkaSettings

BARE = {
    **kafka_options.DEFAULTS,
    **kafka_options.OWNED,
    "bootstrap.servers": "broker:9092",
    "delivery.timeout.ms": "8000",
}


def options(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, str]:
    """What the client gets, when only these `KAFKA_…` variables are set."""
    for name in os.environ:
        if name.startswith("KAFKA_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "broker:9092")
    for name, value in variables.items():
        monkeypatch.setenv(f"KAFKA_{name}", value)
    return kafka_options.configuration(KafkaSettings.load())


def test_o2_the_bare_options_are_safe_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    found = options(monkeypatch)
    assert found == BARE
    assert (found["acks"], found["enable.idempotence"]) == ("all", "true")
    assert found["partitioner"] == "murmur2_random"


def test_options_of_the_client_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    found = options(
        monkeypatch,
        SECURITY_PROTOCOL="SASL_SSL",
        SASL_MECHANISM="PLAIN",
        SASL_PASSWORD="hunter2",  # noqa: S106
        COMPRESSION_TYPE="lz4",
        LINGER_MS="20",
    )
    assert found == {
        **BARE,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.password": "hunter2",
        "compression.type": "lz4",
        "linger.ms": "20",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEAP_OPTS", "-Xmx1g"),
        ("PORT", "tcp://10.0.0.1:9092"),
        ("SERVICE_HOST", "10.0.0.1"),
        ("LOG4J_OPTS", "-Dx"),
        ("BROKER_ID", "1"),
        ("LOGGER", "app"),
        ("DEFAULT_TOPIC_CONFIG", "x"),
        ("ERROR_CB", "x"),
        ("", "x"),
        ("SASL_PASSWORD", ""),
        ("COMPRESSION_TYPE", ""),
        ("ACKS", ""),
    ],
)
def test_what_is_not_meant_for_the_client_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert options(monkeypatch, **{name: value}) == BARE


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACKS", "1"),
        ("ACKS", "0"),
        ("REQUEST_REQUIRED_ACKS", "1"),
        ("ENABLE_IDEMPOTENCE", "false"),
        ("ENABLE_IDEMPOTENCE", "False"),
        ("DELIVERY_TIMEOUT_MS", "1"),
        ("MESSAGE_TIMEOUT_MS", "1"),
        ("TRANSACTIONAL_ID", "mine"),
        ("DELIVERY_REPORT_ONLY_ERROR", "true"),
    ],
)
def test_o2_what_would_break_a_promise_is_refused_by_the_variables_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    with pytest.raises(SettingsError, match=rf"^KAFKA_{name} is refused: [^\n]+\.$"):
        options(monkeypatch, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("ACKS", "all"), ("ACKS", "-1"), ("ENABLE_IDEMPOTENCE", "true")]
)
def test_o2_what_says_the_same_is_no_override(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert options(monkeypatch, **{name: value}) == BARE


@pytest.mark.parametrize(
    "name",
    ["LINGER_MS", "SECURITY_PROTOCOL", "COMPRESSION_TYPE", "DEBUG", "PARTITIONER", "OPAQUE"],
)
def test_a_wrong_value_is_refused_by_the_variables_name_and_never_repeated(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with pytest.raises(SettingsError) as refusal:
        options(monkeypatch, SASL_PASSWORD="hunter2", **{name: "p4ssw0rd"})  # noqa: S106
    assert str(refusal.value).startswith(f"KAFKA_{name} is wrong: ")
    assert "p4ssw0rd" not in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_options_that_do_not_go_together_are_told_at_start_without_their_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options(
        monkeypatch,
        SECURITY_PROTOCOL="SASL_PLAINTEXT",
        SASL_MECHANISM="PLAIN",
        SASL_PASSWORD="hunter2",  # noqa: S106
    )
    with pytest.raises(SettingsError, match=r"^Kafka client options are wrong: ") as refusal:
        kafka.check(KafkaSettings.load())
    assert "hunter2" not in str(refusal.value)
