"""The outbox's rows: claimed in order per key, marked by their own verdicts, kept small.

*Unsent* is a message neither acknowledged nor discarded; *waiting* one that may be sent, so not set
aside either.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

_read = json.JSONDecoder().raw_decode  # jsonb's text has no space around it to be looked for
_TEXTS = {str, type(None)}
UNSENT = "published_at IS NULL AND discarded_at IS NULL"
WAITING = f"{UNSENT} AND set_aside_at IS NULL"


class Row(NamedTuple):
    """A claimed message; `payload` is its stored text, byte for byte.

    A named tuple, as all that is made once per message: it costs a quarter of a frozen dataclass.
    """

    id: int
    message_id: str
    topic: str
    key: str
    payload: str
    headers: dict[str, str | None] | None
    """None when they are no flat object of texts."""
    attempts: int
    previous: int | None
    """The unsent message right before it of the same topic and key."""


# Rows behind a message that was set aside are left out in the scan, so that a long blocked key at
# the head takes nobody's place. What another publisher holds shows as a gap: its rows are unsent
# and not in this claim. One snapshot for both looks: a row sent meanwhile still counts as unsent.
# Both look at a neighbour in the one index that has this order: a single probe, however long the
# key's line is and whatever the statistics say; whoever is the first of its key needs no second
# one. Planned for every batch, which costs a millisecond: a plan kept from when the table was small
# would read all of it for every row.
CLAIM = text(
    f"""
WITH claimed AS MATERIALIZED (
    SELECT message.id, message_id::text AS message_id, topic, key, payload::text AS payload,
        headers::text AS headers, attempts, first.id AS first_id
    FROM calendar.outbox_messages message CROSS JOIN LATERAL (
        SELECT id, set_aside_at FROM calendar.outbox_messages
        WHERE (topic, key, id) >= (message.topic, message.key, 0) AND {UNSENT}
        ORDER BY topic, key, id LIMIT 1
    ) first
    WHERE published_at IS NULL AND discarded_at IS NULL AND message.set_aside_at IS NULL
      AND message.id > :after_id AND (last_attempt_at IS NULL OR last_attempt_at < :started_at)
      AND first.set_aside_at IS NULL
    ORDER BY message.id LIMIT :batch_size
    FOR NO KEY UPDATE OF message SKIP LOCKED
)
SELECT id, message_id, topic, key, payload, headers, attempts, CASE WHEN id <> first_id THEN (
    SELECT CASE WHEN (topic, key) = (claimed.topic, claimed.key) THEN id END
    FROM calendar.outbox_messages previous
    WHERE (topic, key, id) < (claimed.topic, claimed.key, claimed.id) AND {UNSENT}
    ORDER BY topic DESC, key DESC, id DESC LIMIT 1
) END AS previous
FROM claimed ORDER BY id
"""
)


def claim(
    connection: Connection, after_id: int, started_at: datetime, batch_size: int
) -> list[Row]:
    """Lock the next waiting messages behind `after_id` that this drain has not tried yet."""
    found = connection.execute(
        CLAIM, {"after_id": after_id, "started_at": started_at, "batch_size": batch_size}
    )
    return [
        Row(number, message_id, topic, key, payload, _flat(headers), attempts, previous)
        for number, message_id, topic, key, payload, headers, attempts, previous in found.all()
    ]


def in_turn(rows: Sequence[Row], acknowledged: Collection[int]) -> list[Row]:
    """Those of a claim that may be sent (O3): whoever is before them goes along, or has gone.

    `acknowledged` are the messages of which this very publisher has Kafka's word already.
    """
    gone = {None, *acknowledged}
    going = []
    for row in rows:
        if row.previous in gone:
            gone.add(row.id)
            going.append(row)
    return going


def _flat(headers: str) -> dict[str, str | None] | None:
    try:
        found, _ = _read(headers)
    except RecursionError:  # nested deeper than any reader goes
        return None
    flat = isinstance(found, dict) and _TEXTS.issuperset(map(type, found.values()))
    return found if flat else None


def mark_published(connection: Connection, ids: Sequence[int]) -> list[float]:
    """Kafka has acknowledged exactly these; how old each one is, in seconds."""
    marked = connection.execute(
        text(
            """
            WITH marked AS (
                UPDATE calendar.outbox_messages
                SET published_at = clock_timestamp(), last_attempt_at = clock_timestamp(),
                    attempts = attempts + 1, last_error = NULL
                WHERE id = ANY(:ids)
                RETURNING extract(epoch FROM clock_timestamp() - created_at)::float AS seconds
            )
            SELECT coalesce(array_agg(seconds), '{}') FROM marked
            """
        ),
        {"ids": list(ids)},
    )
    return list(marked.scalar_one())


def mark_refused(connection: Connection, message_id: int, error: str, max_attempts: int) -> bool:
    """Kafka has refused this one for its own sake; true when that was its last try (O4)."""
    return bool(
        connection.execute(
            text(
                """
                UPDATE calendar.outbox_messages
                SET attempts = attempts + 1, last_attempt_at = clock_timestamp(),
                    last_error = :error,
                    set_aside_at = CASE WHEN attempts + 1 >= :max_attempts
                                        THEN clock_timestamp() END
                WHERE id = :id
                RETURNING set_aside_at IS NOT NULL
                """
            ),
            {"id": message_id, "error": error, "max_attempts": max_attempts},
        ).scalar_one()
    )


@dataclass(frozen=True, slots=True)
class Refused:
    """A message that Kafka has refused at least once and that is still unsent."""

    id: int
    message_id: UUID
    topic: str
    key: str
    created_at: datetime
    attempts: int
    last_error: str | None
    set_aside_at: datetime | None
    held_back: int
    """Later unsent messages of its key, which wait for it."""


def refused(connection: Connection, limit: int, topic: str | None = None) -> list[Refused]:
    """The refused messages, in the order in which they would be sent."""
    rows = connection.execute(
        text(
            f"""
            SELECT id, message_id, topic, key, created_at, attempts, last_error, set_aside_at, (
                SELECT count(*) FROM calendar.outbox_messages later
                WHERE later.topic = message.topic AND later.key = message.key
                  AND later.id > message.id AND {UNSENT}
            )
            FROM calendar.outbox_messages message
            WHERE {UNSENT} AND last_error IS NOT NULL
              AND (CAST(:topic AS text) IS NULL OR topic = :topic)
            ORDER BY id LIMIT :limit
            """
        ),
        {"topic": topic, "limit": limit},
    )
    return [Refused(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the set-aside messages: one by its message id, those of a topic, or all."""

    message_id: UUID | None = None
    topic: str | None = None

    @property
    def values(self) -> dict[str, object]:
        """For the statements below; both None chooses all."""
        return {"message_id": self.message_id, "topic": self.topic}


# Locked in one order, whatever was chosen: two who choose the same cannot deadlock (S6).
_CHOSEN = f"""id IN (
    SELECT id FROM calendar.outbox_messages
    WHERE {UNSENT} AND set_aside_at IS NOT NULL
      AND (CAST(:message_id AS uuid) IS NULL OR message_id = :message_id)
      AND (CAST(:topic AS text) IS NULL OR topic = :topic)
    ORDER BY id FOR NO KEY UPDATE)"""


def requeue(connection: Connection, choice: Choice) -> int:
    """Give them their tries back; order per key is their id's, so it is as if never refused."""
    return connection.execute(
        text(
            f"""UPDATE calendar.outbox_messages
            SET set_aside_at = NULL, attempts = 0, last_error = NULL, last_attempt_at = NULL
            WHERE {_CHOSEN}"""
        ),
        choice.values,
    ).rowcount


def discard(connection: Connection, choice: Choice) -> int:
    """Give them up for good; the rows stay until retention, with the error that was their end."""
    return connection.execute(
        text(
            f"""UPDATE calendar.outbox_messages
            SET discarded_at = clock_timestamp() WHERE {_CHOSEN}"""
        ),
        choice.values,
    ).rowcount
