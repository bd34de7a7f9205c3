"""Kafka's client options and the way there, on the embedded broker and the one that fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from app.doctor import cluster, examine
from app.doctor.complaint import Complaint
from app.domain.outbox import TOPICS
from dev.chaos.kafkas import ProxiedTansu
from dev.servers.kafka import Kafka
from dev.servers.mock_kafka import MockKafka
from dev.servers.port import free_port
from tests.neighbour import wait_until

LAST = TOPICS[-1]


@pytest.fixture
def unfurnished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kafka]:
    """A broker without topics."""
    with Kafka(tmp_path) as server:
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", server.bootstrap)
        yield server


def found() -> list[Complaint]:
    return list(examine("kafka"))


def test_a_broker_with_both_topics_is_well(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap)
    assert found() == []


def test_topics_that_are_missing_come_with_their_command_and_asking_makes_none(
    unfurnished: Kafka,
) -> None:
    for _ in range(2):
        complaints = found()
        assert [complaint.serious for complaint in complaints] == [True, True]
        for complaint, topic in zip(complaints, TOPICS, strict=True):
            assert complaint.found.startswith(f"There is no topic {topic}")
            assert f"--create --topic {topic} --partitions 12 --replication-factor 1`" in (
                complaint.remedy
            )
    admin = AdminClient({"bootstrap.servers": unfurnished.bootstrap})
    for made in admin.create_topics([NewTopic(topic, 12, 1) for topic in TOPICS]).values():
        made.result(30)
    wait_until(lambda: found() == [], "the topics are there")


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (
            {"KAFKA_ACKS": "1", "KAFKA_LINGER_MS": "s3cret"},
            ["KAFKA_ACKS is refused", "KAFKA_LINGER_MS is wrong"],
        ),
        (
            {
                "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
                "KAFKA_SASL_MECHANISM": "PLAIN",
                "KAFKA_SASL_PASSWORD": "s3cret",
            },
            ["Kafka client options are wrong"],
        ),
    ],
)
def test_every_option_that_is_refused_is_named_without_its_value(
    unfurnished: Kafka, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], told: list[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    complaints = found()
    assert [
        complaint.found[: len(start)] for complaint, start in zip(complaints, told, strict=True)
    ] == told
    assert all(complaint.serious for complaint in complaints)
    assert "s3cret" not in f"{complaints}"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("KAFKA_PARTITIONER", "consistent_random", "than a Java producer"),
        ("KAFKA_ALLOW_AUTO_CREATE_TOPICS", "true", "a misspelt topic"),
        ("KAFKA_ENABLE_SSL_CERTIFICATE_VERIFICATION", "false", "pretend"),
        ("KAFKA_SOCKET_KEEPALIVE_ENABLE", "false", "goes unnoticed"),
    ],
)
def test_an_option_that_is_unwise_is_warned_of(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap)
    monkeypatch.setenv(name, value)
    [complaint] = found()
    assert complaint.found.startswith(f"{name} is set: ")
    assert told in complaint.found
    assert not complaint.serious


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        ("127.0.0.1:{free}", "nobody answers (_TRANSPORT)"),
        ("no-such-host.invalid:9092", "is unknown here"),
    ],
)
def test_brokers_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, servers: str, told: str
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", servers.format(free=free_port()))
    [complaint] = found()
    assert told in complaint.found
    assert complaint.serious


def test_a_broker_that_never_answers_costs_seconds(unfurnished: Kafka) -> None:
    unfurnished.freeze()
    [complaint] = found()
    unfurnished.thaw()
    assert "nobody answers" in complaint.found


def test_a_login_that_is_refused(unfurnished: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("KAFKA_SASL_MECHANISM", "PLAIN")
    monkeypatch.setenv("KAFKA_SASL_USERNAME", "u")
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "s3cret")
    [complaint] = found()
    assert "it refuses the user, the password or the mechanism" in complaint.found
    assert "s3cret" not in f"{complaint}"


def test_an_advertised_address_that_is_not_in_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer comes from the address that was given, and sends clients elsewhere."""
    elsewhere = free_port()
    with ProxiedTansu(tmp_path, port=free_port(), topics={}, advertised=elsewhere) as server:
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", server.bootstrap)
        [complaint] = found()
    assert f"sends its clients to 127.0.0.1:{elsewhere}, which" in complaint.found
    assert "advertised.listeners" in complaint.remedy


@pytest.fixture
def mock(monkeypatch: pytest.MonkeyPatch) -> Iterator[MockKafka]:
    """It has no topic administration, so that each question for it ends by its bound."""
    monkeypatch.setattr(cluster, "SECONDS", 1.0)
    with MockKafka(dict.fromkeys(TOPICS, 2)) as server:
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", server.bootstrap)
        assert found() == []
        yield server


def test_a_partition_without_a_leader(mock: MockKafka) -> None:
    mock.leaderless(LAST, 1)
    [complaint] = found()
    assert complaint.found.startswith(f"Partition 1 of {LAST} has no leader")
    assert complaint.serious
    mock.lead(LAST, 1)
    assert found() == []
