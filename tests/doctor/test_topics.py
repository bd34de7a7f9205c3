"""Topics that do not keep what they take, on a real Apache Kafka of two brokers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own way to export
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from app.doctor import examine
from app.doctor.complaint import Complaint
from app.domain.outbox import TOPICS
from dev.servers.apache_kafka import ApacheKafka
from dev.servers.port import LOOPBACK
from tests.neighbour import wait_until
from tests.programs import needed

SECONDS = 30
FIRST, LAST = TOPICS
OPEN_TO_ALL = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


class FurtherBroker(ApacheKafka):
    """A second broker in the cluster of `first`, which keeps its controller."""

    def __init__(self, directory: Path, first: ApacheKafka) -> None:
        super().__init__(directory, settings=OPEN_TO_ALL)
        self.first = first
        self._cluster = first._cluster

    def _settings(self, port: int) -> dict[str, str]:
        return {
            **super()._settings(port),
            "process.roles": "broker",
            "node.id": "2",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self.first._controller}",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        }


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ApacheKafka]]:
    """A cluster of two, which asks an authorizer."""
    needed("java", "default-jre-headless")
    needed("mvn", "maven")
    places = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    with (
        ApacheKafka(places[0], settings=OPEN_TO_ALL) as first,
        FurtherBroker(places[1], first) as second,
    ):
        yield [first, second]


@pytest.fixture
def admin(brokers: list[ApacheKafka], monkeypatch: pytest.MonkeyPatch) -> Iterator[AdminClient]:
    """For a cluster in perfect health: both topics, each on both brokers."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", brokers[0].bootstrap)
    made = AdminClient({"bootstrap.servers": brokers[0].bootstrap, "log_level": 0})
    create(made, 2, {"min.insync.replicas": "2"})
    wait_until(lambda: found() == [], "the cluster is healthy")
    yield made
    allow_everything(made)
    remove(made)


def create(admin: AdminClient, replicas: int, settings: dict[str, str]) -> None:
    wanted = [NewTopic(topic, 3, replicas, config=settings) for topic in TOPICS]
    for answer in admin.create_topics(wanted).values():
        answer.result(SECONDS)


def remove(admin: AdminClient) -> None:
    for answer in admin.delete_topics(list(TOPICS)).values():
        answer.result(SECONDS)
    wait_until(lambda: not set(TOPICS) & set(admin.list_topics().topics), "the topics are gone")


def allow_everything(admin: AdminClient) -> None:
    """Without a rule there is no restriction."""
    anything: Any = None
    every_rule = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        anything,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for answer in admin.delete_acls([every_rule]).values():
        answer.result(SECONDS)


def set_on(admin: AdminClient, topic: str, setting: str) -> None:
    name, _, value = setting.partition("=")
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    [answer] = admin.incremental_alter_configs([resource]).values()
    answer.result(SECONDS)


def mend(admin: AdminClient, complaint: Complaint) -> None:
    """Do what `kafka-configs.sh` would do."""
    command = re.search(r"--entity-name (\S+) --add-config ([^\s`]+)", complaint.remedy)
    assert command is not None, complaint
    set_on(admin, command[1], command[2])


def found() -> list[Complaint]:
    return list(examine("kafka"))


def the_one(start: str) -> Complaint:
    """The only complaint, as soon as the broker that is asked has heard what leads to it."""
    seen: list[Complaint] = []

    def told() -> bool:
        seen[:] = found()
        return [one.found[: len(start)] for one in seen] == [start]

    wait_until(told, start)
    return seen[0]


@pytest.mark.parametrize(
    ("setting", "told", "serious"),
    [
        ("min.insync.replicas=3", "min.insync.replicas is 3 and it has 2 replicas", True),
        ("min.insync.replicas=1", "min.insync.replicas is 1: an acknowledged", False),
        ("unclean.leader.election.enable=true", "unclean.leader.election.enable", False),
        ("cleanup.policy=compact", "cleanup.policy is compact", True),
        ("retention.ms=86400000", "retention.ms keeps messages for 1 day", False),
        ("max.message.bytes=900000", "max.message.bytes is 900000", False),
        ("max.message.bytes=2000", "max.message.bytes is 2000", True),
    ],
)
def test_a_setting_that_loses_or_refuses_messages_is_mended_by_the_remedy(
    admin: AdminClient, setting: str, told: str, *, serious: bool
) -> None:
    set_on(admin, LAST, setting)
    complaint = the_one(f"{LAST}: {told}")
    assert complaint.serious is serious
    mend(admin, complaint)
    wait_until(lambda: found() == [], "it is mended")


def test_one_replica_on_a_cluster_of_two(admin: AdminClient) -> None:
    remove(admin)
    create(admin, 1, {})
    wait_until(lambda: len(found()) == len(TOPICS), "both topics are told of")
    for complaint, topic in zip(found(), TOPICS, strict=True):
        assert complaint.found.startswith(f"{topic} has one replica on a cluster of 2 brokers")
        assert not complaint.serious


def test_topics_that_are_missing_are_to_be_made_on_both_brokers(admin: AdminClient) -> None:
    remove(admin)
    assert ["--replication-factor 2`" in one.remedy for one in found()] == [True, True]
    create(admin, 2, {"min.insync.replicas": "2"})


@pytest.mark.parametrize(
    ("operation", "serious"), [("Describe", True), ("Write", True), ("DescribeConfigs", False)]
)
def test_what_authorization_forbids_is_said_as_such(
    admin: AdminClient, operation: str, *, serious: bool
) -> None:
    kind = {"DescribeConfigs": "DESCRIBE_CONFIGS"}.get(operation, operation.upper())
    topic = (ResourceType.TOPIC, FIRST, ResourcePatternType.LITERAL)
    rules = [
        AclBinding(*topic, "User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW),
        AclBinding(*topic, "User:*", "*", AclOperation[kind], AclPermissionType.DENY),
    ]
    for answer in admin.create_acls(rules).values():
        answer.result(SECONDS)
    complaint = the_one(f"This client may not {operation} on the topic {FIRST}")
    assert complaint.serious is serious
    assert f"--operation {operation} --topic {FIRST}`" in complaint.remedy
    allow_everything(admin)
    wait_until(lambda: found() == [], "it is allowed again")


def test_too_few_replicas_in_sync(admin: AdminClient, brokers: list[ApacheKafka]) -> None:
    brokers[1].kill()
    told = "has 1 of 2 in-sync replicas that min.insync.replicas demands"

    def missed() -> bool:
        complaints = found()
        return bool(complaints) and all(one.serious and told in one.found for one in complaints)

    try:
        wait_until(missed, "the other broker is missed")
    finally:
        brokers[1].start()
    wait_until(lambda: found() == [], "it is in sync again")
