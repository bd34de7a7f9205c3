"""How the demo shows appointments, messages and checks: whole at 80 columns, ids shortened."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from uuid import UUID

from rich.text import Text

from app.domain.outbox import TOPICS
from dev.demo_checks import Check, message_id
from dev.demo_sample import Booked, State, short
from dev.servers.consumer import Record

Cell = tuple[str, str]
"""Text and style."""

_COLUMNS = ("id", "appointment", "slot", "event", "reminders")
_STYLES = {"Available": "green", "Confirmed": "green", "Expired": "yellow", "Cancelled": "yellow"}
_WIDE = 92  # columns from which the reminders' whole story fits


def appointments(
    booked: Sequence[Booked],
    before: Mapping[UUID, State],
    after: Mapping[UUID, State],
    width: int,
) -> Text:
    """A line each, under their kinds; what changed as "before → after"."""
    rows = {one.id: _row(one, before[one.id], after[one.id], width) for one in booked}
    header: list[Cell] = [(name, "bold") for name in _COLUMNS]
    spans = [max(len(row[n][0]) for row in [header, *rows.values()]) for n in range(len(header))]
    gap = "  " if sum(spans) + 2 * len(spans) <= width else " "
    lines = [_line(header, spans, gap)]
    for title, members in groupby(booked, lambda one: one.kind.title):
        lines += [Text(title, "bold cyan"), *(_line(rows[one.id], spans, gap) for one in members)]
    return Text("\n").join(lines)


def _row(one: Booked, was: State, now: State, width: int) -> list[Cell]:
    return [
        (one.name, "dim"),
        _move(was.status, now.status),
        _move(was.slot, now.slot),
        _move(was.event, now.event),
        _reminders(was, now, width),
    ]


def _move(was: str, now: str) -> Cell:
    return (now, "dim") if was == now else (f"{was} → {now}", _STYLES.get(now, ""))


def _reminders(was: State, now: State, width: int) -> Cell:
    if now.pending == was.pending:
        return f"{now.pending} pending", "dim"
    became = f"{now.skipped} skipped"
    return (f"{was.pending} pending → {became}" if width >= _WIDE else became), "yellow"


def _line(cells: Sequence[Cell], spans: Sequence[int], gap: str) -> Text:
    padded = [
        Text(text.ljust(span), style) for (text, style), span in zip(cells, spans, strict=True)
    ]
    line = Text(gap).join(padded)
    line.rstrip()
    return line


def messages(records: Sequence[Record]) -> Text:
    """A line each, under their topics: what a consumer needs to know of it."""
    lines = []
    for topic in TOPICS:
        mine = [record for record in records if record.topic == topic]
        lines += [Text(f"{topic}, {len(mine)} messages", "bold cyan"), _titles()]
        lines += [_message(record) for record in mine]
    return Text("\n").join(lines)


def _titles() -> Text:
    return Text(f"place  {'key':8}  {'message-id':10}  document (shortened)", "bold")


def _message(record: Record) -> Text:
    document = json.loads(record.value)
    outcome = next(f"{name}={document[name]}" for name in ("Reason", "Status") if name in document)
    return Text.assemble(
        (f"{record.partition}@{record.offset:<3}  ", "dim"),
        f"{short(record.key):8}  ",
        (f"{short(message_id(record)):10}  ", "dim"),
        (outcome, "yellow"),
        (f" AppointmentId={short(document['AppointmentId'])}…", ""),
        (f" {document['OccurredAt'][11:19]}Z", "dim"),
    )


def in_full(records: Sequence[Record], appointment_id: UUID) -> Text:
    """The messages about one appointment, as they lie in their topics."""
    mine = [r for r in records if json.loads(r.value)["AppointmentId"] == str(appointment_id)]
    mine.sort(key=lambda record: TOPICS.index(record.topic))
    return Text("\n").join(_whole(record) for record in mine)


def _whole(record: Record) -> Text:
    lines = [Text(record.topic, "bold cyan"), Text(f"key             {record.key}")]
    lines += [Text(f"{name:15} {value.decode()}", "dim") for name, value in record.headers]
    document = json.dumps(json.loads(record.value), indent=2, ensure_ascii=False)
    return Text("\n").join([*lines, Text(document)])


def checks(found: Sequence[Check]) -> Text:
    """A mark and a sentence each."""
    return Text("\n").join(_check(check) for check in found)


def _check(check: Check) -> Text:
    if not check.broken:
        return Text.assemble(("✓ ", "bold green"), check.sentence)
    return Text.assemble(
        ("✗ ", "bold red"),
        check.sentence,
        (f" Not so: {', '.join(check.broken)}.", "red"),
    )
