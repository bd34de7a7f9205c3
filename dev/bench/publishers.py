"""Two publishers on one outbox: whether the second brings something, and order per key (O3)."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from sqlalchemy import text

from dev.bench import backlog, rounds
from dev.bench.drain import drain
from dev.bench.figure import Measured, StructureError
from dev.bench.stage import Database, Stage
from dev.servers.consumer import read_topics

PER_KEY = 5
"""Messages of one key, where there are many keys."""
FEW = 20
"""Keys, where there are few."""
_READING_SECONDS = 120.0

Lines = dict[tuple[str, str], list[str]]
"""Message ids by topic and key."""


def two_publishers(stage: Stage) -> Measured:
    """One and two processes on one outbox, its messages over many keys and over few."""
    count = stage.size(100_000, 4_000)
    kinds = {"many keys": count // PER_KEY, "few keys": FEW}
    sides = {
        f"{publishers} on {kind}": partial(_in_order, stage, publishers, count, keys)
        for kind, keys in kinds.items()
        for publishers in (1, 2)
    }
    found = rounds.side_by_side(stage.size(3, 1), sides, warm_up=0)
    ratios = {kind: rounds.divide(found[f"2 on {kind}"], found[f"1 on {kind}"]) for kind in kinds}
    notes = [
        f"over {FEW} keys: {ratios['few keys'].median:.2f}",
        "after each run the topics were read back: each message once, in order per key",
    ]
    return Measured(ratios["many keys"], found, notes)


def _in_order(stage: Stage, publishers: int, count: int, keys: int) -> float:
    """Messages a second; StructureError unless Kafka has each once, in order per key."""
    topics = stage.topics()
    with stage.database() as made:
        backlog.messages(made.engine, count, keys, topics)
        written = _written(made)
        rate = drain(stage, made, publishers)
    check_order(written, _arrived(stage, topics, count))
    return rate


def _written(made: Database) -> Lines:
    lines: Lines = defaultdict(list)
    with made.engine.begin() as connection:
        backlog.unlimited(connection)
        for topic, key, message_id in connection.execute(
            text("SELECT topic, key, message_id::text FROM calendar.outbox_messages ORDER BY id")
        ):
            lines[topic, key].append(message_id)
    return lines


def _arrived(stage: Stage, topics: Sequence[str], count: int) -> Lines:
    lines: Lines = defaultdict(list)
    for record in read_topics(
        stage.kafka.bootstrap, topics, expected=count, timeout=_READING_SECONDS
    ):
        lines[record.topic, record.key].append(dict(record.headers)["message-id"].decode())
    return lines


def check_order(written: Lines, arrived: Lines) -> None:
    """By first occurrences, as a consumer sees them who drops repeats; nothing fails here."""
    for (topic, key), line in written.items():
        came = arrived.get((topic, key), [])
        if list(dict.fromkeys(came)) != line:
            raise StructureError(
                f"of {len(line)} messages of key {key} of {topic} {len(set(came))} came, or not in"
                " their order"
            )
    repeated = sum(len(line) - len(set(line)) for line in arrived.values())
    if repeated:
        raise StructureError(f"{repeated} messages came more than once")
