"""Planted bugs: each takes one safeguard out of the product, in this process only.

A plant is applied with whatever sets an attribute: pytest's monkeypatch, or `setattr` in a process
that ends anyway.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, replace

from sqlalchemy import Connection, text

from app.domain.booking import Ending
from app.prepared import Prepared
from app.relay import Line, Marked, Relay
from app.store import bookings, claims, endings, outbox

SetAttribute = Callable[[object, str, object], None]
Plant = Callable[[SetAttribute], None]

SKIP_LOCKED = "FOR NO KEY UPDATE OF a SKIP LOCKED"


def without(statement: Prepared, words: str, instead: str = "") -> Prepared:
    """The statement without a part of it, which must be there."""
    assert words in statement.sql, f"{statement.name} has no {words!r} any more: plant anew"
    return replace(statement, sql=statement.sql.replace(words, instead))


def claim_without_lock(patch: SetAttribute) -> None:
    """C2: the appointment is read, not locked."""
    patch(claims, "CLAIM_NEXT", without(claims.CLAIM_NEXT, SKIP_LOCKED))


def claim_that_waits(patch: SetAttribute) -> None:
    """C2: what somebody else holds is waited for."""
    statement = without(claims.CLAIM_NEXT, SKIP_LOCKED, "FOR NO KEY UPDATE OF a")
    patch(claims, "CLAIM_NEXT", statement)


def claim_without_lock_on(part: str) -> Plant:
    """C2: this part is read, not locked with the appointment."""

    def plant(patch: SetAttribute) -> None:
        start = claims.CLAIM_NEXT.sql.index(f"), {part} AS MATERIALIZED")
        head, tail = claims.CLAIM_NEXT.sql[:start], claims.CLAIM_NEXT.sql[start:]
        locked = "FOR NO KEY UPDATE SKIP LOCKED"
        assert locked in tail
        sql = head + tail.replace(locked, "", 1)
        patch(claims, "CLAIM_NEXT", replace(claims.CLAIM_NEXT, sql=sql))

    return plant


def claim_of_any_status(patch: SetAttribute) -> None:
    """C1: what is no longer Pending is claimed too."""
    patch(claims, "CLAIM_NEXT", without(claims.CLAIM_NEXT, "a.status = 'Pending' AND"))


def write_over_any_version(patch: SetAttribute) -> None:
    """R2: the version that was read does not matter."""
    statement = endings.SAVE_ENDING
    for part in ("appointment", "slot", "event"):
        statement = without(statement, f" AND version = :{part}_version - 1")
    patch(endings, "SAVE_ENDING", statement)


def neither_lock_nor_version(patch: SetAttribute) -> None:
    """The lost update itself."""
    statement = without(claims.CLAIM_NEXT, SKIP_LOCKED)
    patch(claims, "CLAIM_NEXT", without(statement, "FOR NO KEY UPDATE SKIP LOCKED"))
    write_over_any_version(patch)


def reminders_not_skipped(patch: SetAttribute) -> None:
    """C3.4."""
    statement = without(
        endings.SAVE_ENDING,
        "WHERE calendar_event_id = :event_id AND status",
        "WHERE false AND status",
    )
    patch(endings, "SAVE_ENDING", statement)


def half_a_pair(patch: SetAttribute) -> None:
    """C3.6: the second message is forgotten."""
    second = """,
           (:message_id_2, :topic_2, :key_2, :payload_2, :headers_2)"""
    patch(endings, "SAVE_ENDING", without(endings.SAVE_ENDING, second))


def commit_before_the_messages(patch: SetAttribute) -> None:
    """C3: the state is committed first, its pair of messages after it."""
    start = endings.SAVE_ENDING.sql.index(", message AS (")
    end = endings.SAVE_ENDING.sql.index("SELECT pg_current_xact_id()")
    silent = without(endings.SAVE_ENDING, endings.SAVE_ENDING.sql[start:end], "\n")
    save = endings.save_ending

    def save_in_two(connection: Connection, ending: Ending) -> None:
        save(connection, ending)
        connection.commit()
        for message in ending.messages:
            connection.execute(
                text(
                    """INSERT INTO calendar.outbox_messages
                        (message_id, topic, key, payload, headers)
                    VALUES (:message_id, :topic, :key, CAST(:payload AS json),
                        CAST(:headers AS jsonb))"""
                ),
                {**asdict(message), "headers": json.dumps(message.headers)},
            )

    patch(endings, "SAVE_ENDING", silent)
    patch(endings, "save_ending", save_in_two)


def rivals_without_lock(patch: SetAttribute) -> None:
    """S6: confirm, decline and cancel read without locking."""
    patch(bookings, "_LOCKS", [])


def mark_before_the_acknowledgement(patch: SetAttribute) -> None:
    """O2: rows are marked, and that is committed, before they are sent."""

    def mark_first(drain: Relay, connection: Connection, line: Line) -> int:
        with connection.begin():
            size = drain.options.batch_size
            rows = outbox.claim(connection, line.after_id, line.started_at, size)
            marked = outbox.mark_published(connection, [row.id for row in rows])
        line.after_id = rows[-1].id if rows else line.after_id
        drain.send(rows)
        drain.count(Marked(marked, []))
        return len(rows)

    patch(Relay, "batch", mark_first)
