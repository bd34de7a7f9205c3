"""A publisher as a process of its own: `python -m tests.publish.publisher POINT BATCH_SIZE`.

At its first `claimed` or `acknowledged` it says so and waits for a line; then it drains until the
outbox is empty, and says how much it has published.
"""

import sys
from collections.abc import Sequence
from datetime import datetime
from uuid import uuid4

from sqlalchemy import Connection

from app import database, kafka
from app.publish import drain
from app.report import DrainOptions
from app.settings import DatabaseSettings, KafkaSettings
from app.store import outbox

claim, mark_published = outbox.claim, outbox.mark_published
asked: set[str] = set()


def pause(point: str) -> None:
    """Once, at the point that was asked for: until somebody says go on."""
    if point == sys.argv[1] and point not in asked:
        asked.add(point)
        print(point, flush=True)  # noqa: T201
        sys.stdin.readline()


def claim_and_pause(
    connection: Connection, after_id: int, started_at: datetime, batch_size: int
) -> list[outbox.Row]:
    rows = claim(connection, after_id, started_at, batch_size)
    pause("claimed")
    return rows


def pause_and_mark(connection: Connection, ids: Sequence[int]) -> list[float]:
    pause("acknowledged")
    return mark_published(connection, ids)


def main() -> None:
    outbox.claim, outbox.mark_published = claim_and_pause, pause_and_mark
    sender = kafka.sender(KafkaSettings.load())
    engine = database.engine(DatabaseSettings.load().url)
    options, published, more = DrainOptions(batch_size=int(sys.argv[2])), 0, True
    while more:
        report = drain(engine, sender, options, str(uuid4()))
        published, more = published + report.published, report.published > 0
    kafka.close_all()
    print(published, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
