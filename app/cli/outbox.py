"""`outbox`: work the messages that Kafka refused and that were set aside."""

import sys
from uuid import UUID

import typer

from app.cli.desk import connected, console, show_json, table
from app.store import outbox as store


def listing(topic: str | None, limit: int, *, as_json: bool) -> None:
    """The refused messages: those still being tried, and those set aside."""
    with connected() as connection:
        found = store.refused(connection, limit, topic)
    if as_json:
        show_json(found)
    elif not found:
        console.print("No message is refused.")
    else:
        console.print(
            table(
                "Refused messages, in the order in which they would be sent",
                ["message", "topic", "key", "tries", "state", "holds back", "error"],
                [
                    (
                        m.message_id,
                        m.topic,
                        m.key,
                        m.attempts,
                        "set aside" if m.set_aside_at else "being tried",
                        m.held_back,
                        m.last_error or "",
                    )
                    for m in found
                ],
            )
        )


def requeue(message: str | None, topic: str | None, *, every: bool) -> None:
    """Put messages back into the outbox, in their order, once their cause is mended."""
    choice = _choice(message, topic, every=every)
    with connected() as connection:
        count = store.requeue(connection, choice)
    _report(count, "put back; the next drain sends them.")


def discard(message: str | None, topic: str | None, *, every: bool) -> None:
    """Give messages up for good: they are never sent, and later ones of their keys may go."""
    choice = _choice(message, topic, every=every)
    with connected() as connection:
        count = store.discard(connection, choice)
    _report(count, "discarded.")


def _choice(message: str | None, topic: str | None, *, every: bool) -> store.Choice:
    """Exactly one way of choosing: nothing is worked by accident."""
    if [message is not None, topic is not None, every].count(True) != 1:
        raise typer.BadParameter("Name one message, or --topic, or --all.")
    if message is None:
        return store.Choice(topic=topic)
    try:
        return store.Choice(message_id=UUID(message))
    except ValueError:
        raise typer.BadParameter(f"{message!r} is not a message id.") from None


def _report(count: int, done: str) -> None:
    if count == 0:
        sys.exit("No message that is set aside matches: see `python -m app outbox list`.")
    console.print(f"{count} {'message' if count == 1 else 'messages'} {done}")
