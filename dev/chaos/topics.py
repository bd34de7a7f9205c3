"""What lies on the topics against what the outbox knows: lost, unknown, altered, out of order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from dev.chaos import records
from dev.chaos.listener import Heard
from dev.chaos.verdict import Finding, Kind, findings

ACKNOWLEDGED = "acknowledged, and on no topic"


@dataclass(frozen=True)
class Written:
    """A message as the outbox has it."""

    id: int
    topic: str
    key: str
    value: bytes
    headers: dict[str, str]
    published: bool


def outbox(connection: Connection) -> dict[str, Written]:
    """All of it, by message id."""
    found = records.rows(
        connection,
        """SELECT message_id::text, id, topic, key, payload::text, headers, published_at IS NOT NULL
        FROM calendar.outbox_messages""",
    )
    return {
        identifier: Written(number, topic, key, payload.encode(), headers, published)
        for identifier, number, topic, key, payload, headers, published in found
    }


def published(connection: Connection) -> set[str]:
    """The message ids that the product says are on their topics."""
    found = records.rows(
        connection,
        "SELECT message_id::text FROM calendar.outbox_messages WHERE published_at IS NOT NULL",
    )
    return {identifier for (identifier,) in found}


def judge(written: Mapping[str, Written], heard: Sequence[Heard]) -> list[Finding]:
    """Everything that is wrong with what was heard."""
    there = {one.message_id for one in heard}
    known = [one for one in heard if one.message_id in written]
    altered = {one.message_id for one in known if not _same(written[one.message_id], one)}
    lost = [name for name, message in written.items() if message.published and name not in there]
    return [
        *findings(Kind.LOST, ACKNOWLEDGED, lost),
        *findings(Kind.DOUBLE, "on a topic, and unknown to the outbox", there - written.keys()),
        *findings(Kind.OTHER, "a copy differs from what the outbox has", altered),
        *findings(Kind.OTHER, "a key's messages on several partitions", _scattered(known)),
        *findings(Kind.ORDER, "overtaken within its key", _overtaken(written, known)),
    ]


def _same(message: Written, one: Heard) -> bool:
    headers = {name: value.decode(errors="replace") for name, value in one.headers}
    return (message.topic, message.key, message.value) == (one.topic, one.key, one.value) and (
        headers == {**message.headers, "message-id": one.message_id}
    )


def _scattered(heard: Iterable[Heard]) -> set[str]:
    places: dict[tuple[str, str, str], int] = {}
    return {
        one.key
        for one in heard
        if places.setdefault((one.log, one.topic, one.key), one.partition) != one.partition
    }


def _overtaken(written: Mapping[str, Written], heard: Iterable[Heard]) -> list[str]:
    """Those whose first occurrence came after that of a later one of their key."""
    latest: dict[tuple[str, str], int] = {}
    seen: set[str] = set()
    late = []
    for one in heard:
        if one.message_id in seen:
            continue
        seen.add(one.message_id)
        number, place = written[one.message_id].id, (one.topic, one.key)
        if number < latest.get(place, 0):
            late.append(one.message_id)
        latest[place] = max(number, latest.get(place, 0))
    return late


def repeats(heard: Sequence[Heard]) -> int:
    """Copies beyond the first: allowed, since delivery is at least once."""
    copies = [one.message_id for one in list(heard)]  # it grows while we count
    return len(copies) - len(set(copies))
