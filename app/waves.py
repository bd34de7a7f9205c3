"""What a batch sends at once: waves that hold a key no more than once, row by row a record (O3)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from app import facts
from app.kafka import Answer, Record, Verdict
from app.store.outbox import Row

Tried = list[tuple[Row, Verdict]]
"""Each row that was sent, and what became of it."""


def acknowledged(tried: Tried) -> list[int]:
    """Whose delivery Kafka has confirmed."""
    return [row.id for row, verdict in tried if verdict.answer is Answer.ACKNOWLEDGED]


def record(row: Row) -> Record:
    """The row as it goes over the wire: the stored text itself, never decoded (O2, O6)."""
    headers = None if row.headers is None else {**row.headers, "message-id": row.message_id}
    return Record(row.topic, row.key.encode(), row.payload.encode(), headers)


def answers(tried: Tried) -> Callable[[], Iterator[facts.Answer]]:
    """What may be told of them, to who asks: never their content, not even by a repr (D5)."""

    def tell() -> Iterator[facts.Answer]:
        for row, verdict in tried:
            headers = row.headers or {}
            yield facts.Answer(
                row.message_id,
                row.topic,
                headers.get("correlation-id"),
                headers.get("traceparent"),
                None if verdict.answer is Answer.ACKNOWLEDGED else verdict.error,
            )

    return tell


def waves(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """First every key's first message, then every key's second, …: a wave holds a key once."""
    by_key: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row.topic, row.key].append(row)
    for wave in zip_longest(*by_key.values()):
        yield [row for row in wave if row is not None]
