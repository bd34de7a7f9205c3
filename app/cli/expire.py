"""`expire --dry-run`: what the next cycle would change and publish."""

import json
from collections import Counter
from itertools import islice
from typing import Any

import typer

from app.cli.desk import connected, console, engine, show_json, table
from app.dry_run import Prospect, prospects
from app.settings import AppointmentTimeoutSettings
from app.store import brake

SHOWN = 20


def expire(*, dry_run: bool, as_json: bool) -> None:
    """What the next cycle would do, per appointment: each is written and rolled back."""
    if not dry_run:
        console.print(
            "Only with --dry-run: a cycle is a worker's"
            " (`celery -A tasks call calendar.appointment_timeout`)."
        )
        raise typer.Exit(2)
    batch = AppointmentTimeoutSettings.load().appointment_timeout_batch_size
    with connected() as connection:
        pulled = brake.current(connection)
    found = prospects(engine(), batch)
    if as_json:
        show_json({"brake": pulled, "appointments": [_document(one) for one in found]})
        return
    if pulled:
        console.print(f"As soon as the brake is off, for {pulled.sentence}.")
    _show(list(found))


def _show(found: list[Prospect]) -> None:
    if not found:
        console.print("Nothing is overdue: the next cycle would change nothing.")
        return
    rows = [_row(one) for one in islice(found, SHOWN)]
    columns = ["appointment", "due since (UTC)", "slot", "reminders", "messages, or what is amiss"]
    console.print(table("The next cycle would", columns, rows))
    if len(found) > SHOWN:
        console.print(f"… and {len(found) - SHOWN:,} more (--json shows all).")
    slots = Counter(str(one.ending.slot.status) for one in found if one.ending)
    freed, expired = slots["Available"], slots["Expired"]
    console.print(
        f"{freed + expired:,} would expire ({freed:,} slots freed, {expired:,} expired),"
        f" {len(found) - freed - expired:,} would not. Nothing was changed."
    )


def _row(one: Prospect) -> tuple[object, ...]:
    if one.ending is None:
        return one.appointment_id, one.pending_expires_at, None, None, one.objection
    topics = "\n".join(message.topic for message in one.ending.messages)
    skipped = f"{len(one.ending.reminders)} skipped"
    return one.appointment_id, one.pending_expires_at, one.ending.slot.status, skipped, topics


def _document(one: Prospect) -> dict[str, Any]:
    told: dict[str, Any] = {
        "appointment_id": one.appointment_id,
        "pending_expires_at": one.pending_expires_at,
        "objection": one.objection,
    }
    if one.ending:
        told |= {
            "appointment": {"status": one.ending.appointment.status},
            "slot": {"id": one.ending.slot.id, "status": one.ending.slot.status},
            "event": {
                "id": one.ending.event.id,
                "status": one.ending.event.status,
                "cancel_reason": one.ending.event.cancel_reason,
            },
            "reminders": [
                {"id": reminder.id, "status": reminder.status} for reminder in one.ending.reminders
            ],
            "messages": [
                {
                    "message_id": message.message_id,
                    "topic": message.topic,
                    "key": message.key,
                    "payload": json.loads(message.payload),
                }
                for message in one.ending.messages
            ],
        }
    return told
