"""What lies on Kafka's topics, beside the outbox: in tables that only this session sees.

A topic may be larger than our memory: its records go into temporary tables batch by batch, as
hashes, and PostgreSQL compares them on its disk. The role must be allowed to make such tables.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.audit import Check, Severity
from app.store.audit_messages import OURS, OUTBOX, WITHIN_RETENTION

RECORDS = "pg_temp.topic_records"
BEGINNINGS = "pg_temp.topic_beginnings"


class TopicRecord(NamedTuple):
    """A record that carries our header `message-id`, without its content."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    message_id: UUID | None
    value_hash: bytes | None
    headers: str | None
    recorded_at: datetime | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a partition that Kafka has shortened begins now: at `None` if nothing is left of it."""

    topic: str
    begins_at: datetime | None


@contextmanager
def gathering(connection: Connection) -> Iterator[datetime]:
    """The tables, for as long as they are needed; yields the moment before the topics are read."""
    with connection.begin():
        for statement in _TABLES:
            connection.execute(text(statement))
        now: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    try:
        yield now
    finally:
        with connection.begin():
            connection.execute(text(f"DROP TABLE {RECORDS}, {BEGINNINGS}"))


def add(connection: Connection, records: Sequence[TopicRecord]) -> None:
    """One batch of them."""
    columns = enumerate(zip(*records, strict=True))
    values = {f"c{number}": list(column) for number, column in columns}
    with connection.begin():
        connection.execute(_ADD, values)


def complete(connection: Connection, beginnings: Sequence[Beginning]) -> None:
    """All have been read; these partitions do not begin at their beginning any more."""
    with connection.begin():
        for beginning in beginnings:
            connection.execute(
                text(f"INSERT INTO {BEGINNINGS} VALUES (:topic, {_DROPPED_UNTIL})"),
                {"topic": beginning.topic, "at": beginning.begins_at},
            )
        connection.execute(text(f"ANALYZE {RECORDS}"))


# The minute: a record is dated when it is sent, its row when the whole batch is acknowledged.
_DROPPED_UNTIL = "coalesce(CAST(:at AS timestamptz) + interval '1 minute', 'infinity')"
_TABLES = (
    """CREATE TEMP TABLE topic_records (topic text, partition integer, "offset" bigint, key bytea,
        message_id uuid, value_hash bytea, headers jsonb, recorded_at timestamptz)""",
    "CREATE TEMP TABLE topic_beginnings (topic text, begins_at timestamptz)",
)
_ADD = text(
    f"""INSERT INTO {RECORDS} SELECT c0, c1, c2, c3, c4, c5, CAST(c6 AS jsonb), c7 FROM unnest(
        CAST(:c0 AS text[]), CAST(:c1 AS integer[]), CAST(:c2 AS bigint[]), CAST(:c3 AS bytea[]),
        CAST(:c4 AS uuid[]), CAST(:c5 AS bytea[]), CAST(:c6 AS text[]), CAST(:c7 AS timestamptz[])
    ) AS record (c0, c1, c2, c3, c4, c5, c6, c7)"""
)

_PLACE = """record.topic || '[' || partition || '] at ' || "offset\""""
_MISSING = f"""
    SELECT message_id AS id, 'published, but not on ' || topic AS found, 'a record there' AS wanted
    FROM {OUTBOX} message WHERE topic IN {OURS} AND published_at <= :read_from AND NOT EXISTS (
        SELECT FROM {RECORDS} record
        WHERE record.message_id = message.message_id AND record.topic = message.topic)
    AND published_at {{}} coalesce((SELECT max(begins_at) FROM {BEGINNINGS} beginning
        WHERE beginning.topic = message.topic), '-infinity')"""

CHECKS = (
    # What was acknowledged before the reading began must have been read.
    Check(
        name="published-is-on-its-topic",
        rule="O2",
        says="A published message is on its topic",
        table=OUTBOX,
        sql=_MISSING.format(">"),
    ),
    Check(
        name="published-was-on-its-topic",
        rule="O2",
        says="What the topic has dropped by its own retention can no longer be compared",
        table=OUTBOX,
        severity=Severity.WARNING,
        sql=_MISSING.format("<="),
    ),
    Check(
        name="record-is-the-message",
        rule="O6",
        says="Every copy on a topic has its message's key, bytes and headers",
        table=RECORDS,
        sql=f"""
        SELECT * FROM (
            SELECT message.message_id AS id, CASE
                WHEN record.topic <> message.topic THEN 'another topic'
                WHEN record.key IS DISTINCT FROM convert_to(message.key, 'UTF8') THEN 'another key'
                WHEN value_hash IS DISTINCT FROM sha256(convert_to(payload::text, 'UTF8'))
                    THEN 'other bytes'
                WHEN record.headers IS DISTINCT FROM message.headers
                    || jsonb_build_object('message-id', message.message_id::text)
                    THEN 'other headers'
                END || ' in ' || {_PLACE} AS found, 'those of the outbox' AS wanted
            FROM {RECORDS} record JOIN {OUTBOX} message ON message.message_id = record.message_id
        ) compared WHERE found IS NOT NULL
        """,
    ),
    Check(
        name="records-in-order",
        rule="O3",
        says="A key's first occurrences lie in the order of the outbox",
        table=RECORDS,
        sql=f"""
        SELECT id, 'overtaken: first on the topic behind a later message of its key' AS found,
            'before it' AS wanted
        FROM (
            SELECT message_id AS id, place, lead(place) OVER line AS later
            FROM (
                SELECT topic, partition, message_id, min("offset") AS place
                FROM {RECORDS} GROUP BY topic, partition, message_id
            ) first JOIN (
                SELECT id AS number, message_id, key FROM {OUTBOX} message
                WHERE coalesce(published_at, now()) > coalesce((
                    SELECT max(begins_at) FROM {BEGINNINGS} beginning
                    WHERE beginning.topic = message.topic), '-infinity')
            ) message USING (message_id)
            WINDOW line AS (PARTITION BY topic, key, partition ORDER BY number)
        ) placed WHERE place > later
        """,
    ),
    # A message is written before it is sent: the outbox, asked after the reading, knows all.
    Check(
        name="record-is-known",
        rule="O6",
        says="What carries our headers is in the outbox, unless retention has removed it",
        table=RECORDS,
        sql=f"""
        SELECT coalesce(message_id::text, {_PLACE}) AS id,
            'a record that the outbox does not know, ' || {_PLACE} AS found, 'its row' AS wanted
        FROM {RECORDS} record
        WHERE NOT EXISTS (SELECT FROM {OUTBOX} message
            WHERE message.message_id = record.message_id)
          AND coalesce(recorded_at > {WITHIN_RETENTION}, true)
        """,
    ),
)
