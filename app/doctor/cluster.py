"""What Kafka says of itself, as facts: the only module of the doctor that knows its client.

Topics are asked for in ways that never create one.
"""

import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own way to export
    AclOperation,
    AdminClient,
    ConfigResource,
    ResourceType,
    TopicMetadata,
)

SECONDS = 5.0
"""For each answer."""

_FORBIDDEN = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


class NoAnswer(Exception):
    """Kafka did not answer; the client's own name of the cause."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One of a topic's."""

    number: int
    led: bool
    replicas: int
    in_sync: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that exists, or whose description is forbidden."""

    name: str
    partitions: tuple[Partition, ...] = ()
    forbidden: bool = False
    writable: bool | None = None
    """None: this broker does not say."""
    settings: Mapping[str, str] | None = None
    """None: it is forbidden to ask for them; empty: this broker tells none."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers, those that cannot be reached from here, and the topics that were asked for."""

    brokers: int
    unreachable: tuple[str, ...]
    topics: Mapping[str, Topic]


def look(options: Mapping[str, str], names: Sequence[str]) -> Cluster:
    """Ask for these topics; what does not exist is not among them. Raises NoAnswer."""
    causes: list[str] = []
    told: dict[str, Any] = {"error_cb": lambda error: causes.append(error.name())}
    admin = AdminClient({**options, **told})
    try:
        metadata = admin.list_topics(timeout=SECONDS)
    except KafkaException as error:
        admin.poll(0)  # calls back with what happened meanwhile
        telling = [cause for cause in causes if cause not in {"_ALL_BROKERS_DOWN", "_TRANSPORT"}]
        raise NoAnswer(telling[0] if telling else error.args[0].name()) from None
    addresses = sorted((str(one.host), one.port) for one in metadata.brokers.values())
    unreachable = _unreachable(addresses)
    topics = {} if unreachable else _topics(admin, metadata.topics, names)
    return Cluster(len(addresses), unreachable, topics)


def _unreachable(addresses: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Brokers whose advertised address takes no connection from this host."""

    def reached(address: tuple[str, int]) -> bool:
        try:
            socket.create_connection(address, SECONDS).close()
        except OSError:
            return False
        return True

    with ThreadPoolExecutor(16) as threads:
        answers = threads.map(reached, addresses)
        pairs = zip(addresses, answers, strict=True)
        return tuple(f"{host}:{port}" for (host, port), answer in pairs if not answer)


def _topics(
    admin: AdminClient, known: Mapping[str, TopicMetadata], names: Sequence[str]
) -> dict[str, Topic]:
    """Those that exist; one that may not be seen looks like none, unless it is asked for itself."""
    described = admin.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=True, request_timeout=SECONDS
    )
    found = {}
    for name in names:
        allowed, code = _authorized(described[name])
        if code in _FORBIDDEN:
            found[name] = Topic(name, forbidden=True)
        elif name in known:
            found[name] = Topic(
                name,
                tuple(
                    Partition(one.id, one.leader >= 0, len(one.replicas), len(one.isrs))
                    for one in known[name].partitions.values()
                ),
                writable=AclOperation.WRITE in allowed if allowed else None,
                settings=_settings(admin, name),
            )
    return found


def _authorized(answer: "Future[Any]") -> tuple[Sequence[AclOperation], int | None]:
    """What this client may do there, or the code of the error."""
    try:
        return answer.result(SECONDS * 2).authorized_operations or (), None
    except KafkaException as error:
        return (), error.args[0].code()


def _settings(admin: AdminClient, name: str) -> Mapping[str, str] | None:
    """The topic's own configuration, with its broker's defaults."""
    [answer] = admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, name)], request_timeout=SECONDS
    ).values()
    try:
        return {entry.name: entry.value for entry in answer.result(SECONDS * 2).values()}
    except KafkaException as error:
        return None if error.args[0].code() in _FORBIDDEN else {}
