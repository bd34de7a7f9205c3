"""Kafka's brokers and topics: every broker in reach, and topics that keep what they take."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from app.doctor.cluster import Cluster, Topic
from app.doctor.complaint import Complaint
from app.domain.outbox import TOPICS

WEEKEND = timedelta(days=3)
"""A consumer that fails on Friday evening is mended on Monday."""
LEAST_BYTES = 10_000
"""A message of ours, with room for longer contracts."""
_BATCH_BYTES = 1_000_000  # the client's own default of batch.size and message.max.bytes

_TOPICS = 'kafka-topics.sh --bootstrap-server "$KAFKA_BOOTSTRAP_SERVERS"'
_CONFIGS = 'kafka-configs.sh --bootstrap-server "$KAFKA_BOOTSTRAP_SERVERS"'
_ACLS = 'kafka-acls.sh --bootstrap-server "$KAFKA_BOOTSTRAP_SERVERS"'


def judged(found: Cluster, options: Mapping[str, str]) -> Iterator[Complaint]:
    """What is wrong with the cluster and its topics."""
    for address in found.unreachable:
        yield Complaint(
            f"Kafka sends its clients to {address}, which takes no connection from here.",
            "Correct advertised.listeners of that broker, or let this host reach it.",
        )
    if found.unreachable:
        return
    for name in TOPICS:
        topic = found.topics.get(name)
        if topic is None:
            factor = min(3, found.brokers)
            yield Complaint(
                f"There is no topic {name}: its messages wait in the outbox.",
                f"`{_TOPICS} --create --topic {name} --partitions 12 --replication-factor"
                f" {factor}`",
            )
        elif topic.forbidden:
            yield _unauthorized(name, "Describe", "it looks like none: its messages wait")
        else:
            yield from _topic(topic, found.brokers, options)


def _unauthorized(name: str, operation: str, so: str, *, serious: bool = True) -> Complaint:
    return Complaint(
        f"This client may not {operation} on the topic {name}: {so}.",
        f"`{_ACLS} --add --allow-principal User:… --operation {operation} --topic {name}`",
        serious=serious,
    )


def _topic(topic: Topic, brokers: int, options: Mapping[str, str]) -> Iterator[Complaint]:
    if topic.writable is False:
        yield _unauthorized(topic.name, "Write", "its messages wait")
    for partition in topic.partitions:
        if not partition.led:
            yield Complaint(
                f"Partition {partition.number} of {topic.name} has no leader: its messages wait.",
                "Bring its brokers back.",
            )
    copies = min((one.replicas for one in topic.partitions), default=1)
    if copies == 1 and brokers > 1:
        yield Complaint(
            f"{topic.name} has one replica on a cluster of {brokers} brokers: with its broker,"
            " acknowledged messages are lost.",
            "Raise its replication factor with `kafka-reassign-partitions.sh`.",
            serious=False,
        )
    if topic.settings is None:
        yield _unauthorized(
            topic.name, "DescribeConfigs", "its configuration is not examined", serious=False
        )
    elif topic.settings:
        yield from _replication(topic, copies, topic.settings)
        yield from _keeping(topic.name, topic.settings)
        yield from _size(topic.name, topic.settings, options)


def _replication(topic: Topic, copies: int, found: Mapping[str, str]) -> Iterator[Complaint]:
    wanted = int(found.get("min.insync.replicas", 1))
    if wanted > copies:
        yield _setting(
            topic.name,
            f"min.insync.replicas is {wanted} and it has {copies} replicas: nothing is ever"
            " acknowledged",
            f"min.insync.replicas={min(2, copies)}",
        )
        return
    for one in topic.partitions:
        if one.led and one.in_sync < wanted:
            yield Complaint(
                f"Partition {one.number} of {topic.name} has {one.in_sync} of {wanted} in-sync"
                " replicas that min.insync.replicas demands: nothing is acknowledged there.",
                "Bring its other brokers back.",
            )
    if wanted == 1 and copies > 1:
        yield _setting(
            topic.name,
            "min.insync.replicas is 1: an acknowledged message can be lost with one broker",
            "min.insync.replicas=2",
            serious=False,
        )
    if copies > 1 and found.get("unclean.leader.election.enable") == "true":
        yield _setting(
            topic.name,
            "unclean.leader.election.enable is true: acknowledged messages can be lost",
            "unclean.leader.election.enable=false",
            serious=False,
        )


def _keeping(name: str, found: Mapping[str, str]) -> Iterator[Complaint]:
    policy = found.get("cleanup.policy", "delete")
    if "compact" in policy:
        yield _setting(
            name,
            f"cleanup.policy is {policy}: a consumer that is late misses all but a key's last"
            " message",
            "cleanup.policy=delete",
        )
    kept = timedelta(milliseconds=int(found.get("retention.ms", -1)))
    if "delete" in policy and timedelta(0) <= kept < WEEKEND:
        yield _setting(
            name,
            f"retention.ms keeps messages for {kept}: a consumer that fails on Friday has lost"
            " some by Monday",
            "retention.ms=604800000",
            serious=False,
        )


def _size(name: str, found: Mapping[str, str], options: Mapping[str, str]) -> Iterator[Complaint]:
    """The limit of a topic holds for a whole batch; the client's for a batch as well."""
    largest = int(found.get("max.message.bytes", _BATCH_BYTES))
    batch = min(
        int(options.get(option, _BATCH_BYTES)) for option in ("batch.size", "message.max.bytes")
    )
    if largest < batch:
        yield _setting(
            name,
            f"max.message.bytes is {largest} and a batch of ours may have {batch}: a refused"
            " batch is sent again in halves, and a long message never",
            "max.message.bytes=1048588",
            serious=largest < LEAST_BYTES,
        )


def _setting(name: str, found: str, mended: str, *, serious: bool = True) -> Complaint:
    return Complaint(
        f"{name}: {found}.",
        f"`{_CONFIGS} --alter --entity-type topics --entity-name {name} --add-config {mended}`",
        serious=serious,
    )
