"""All rows of the calendar, as tests compare them: whole rows, the outbox as its documents."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

Row = dict[str, Any]
ById = dict[UUID, Row]

_PARTS = {
    "appointments": "SELECT * FROM calendar.appointments",
    "slots": "SELECT * FROM calendar.availability_slots",
    "events": "SELECT * FROM calendar.calendar_events",
    "reminders": """SELECT calendar_event_id, status, remind_at, updated_at
        FROM calendar.event_reminders""",
    "messages": """SELECT topic, key, payload, headers ->> 'correlation-id' AS correlation,
        published_at IS NOT NULL AS published FROM calendar.outbox_messages ORDER BY id""",
    "failures": "SELECT appointment_id AS id, attempts FROM calendar.expiry_failures",
}
_LOOK = "SELECT json_build_object({})".format(
    ", ".join(
        f"'{part}', (SELECT coalesce(json_agg(p), '[]') FROM ({sql}) p)"
        for part, sql in _PARTS.items()
    )
)


@dataclass
class Rows:
    """Everything but what only a run knows of itself. Reminders are told apart by content."""

    appointments: ById = field(default_factory=dict)
    slots: ById = field(default_factory=dict)
    events: ById = field(default_factory=dict)
    failures: ById = field(default_factory=dict)
    reminders: list[Row] = field(default_factory=list)
    messages: list[Row] = field(default_factory=list)

    def of_event(self, event_id: UUID) -> list[Row]:
        """An event's reminders."""
        return [row for row in self.reminders if row["calendar_event_id"] == event_id]

    def about(self, appointment_id: UUID) -> list[Row]:
        """The messages about an appointment, in the outbox's order."""
        return [row for row in self.messages if row["AppointmentId"] == str(appointment_id)]


def look(connection: Connection) -> Rows:
    """What is committed, in one snapshot."""
    found: dict[str, list[Row]] = connection.exec_driver_sql(_LOOK).scalar_one()
    parts = {name: [_values(row) for row in rows] for name, rows in found.items()}
    by_id = {
        name: {row["id"]: row for row in parts[name]}
        for name in ("appointments", "slots", "events", "failures")
    }
    return Rows(
        **by_id,
        reminders=sorted(parts["reminders"], key=by_content),
        messages=sorted(map(_document, parts["messages"]), key=by_appointment),
    )


def by_content(reminder: Row) -> str:
    """An order of reminders that does not depend on their ids."""
    return str(sorted(reminder.items()))


def by_appointment(message: Row) -> str:
    """Cycles work side by side: among different appointments the outbox has no order."""
    return str(message["AppointmentId"])


def _values(row: Row) -> Row:
    """Times and ids out of what JSON has of them."""
    return {name: _value(name, value) for name, value in row.items()}


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name.endswith("_at"):
        return datetime.fromisoformat(value)
    return UUID(value) if name == "id" or name.endswith(("_id", "_by")) else value


def _document(row: Row) -> Row:
    """A message with its document's fields beside its own; the time as a time."""
    payload = row.pop("payload")
    occurred = datetime.fromisoformat(payload.pop("OccurredAt"))
    return {**row, **payload, "OccurredAt": occurred}


def differences(found: Rows, wanted: Rows) -> list[str]:
    """Where what is there is not what should be there, in words."""
    told = []
    for part in (each.name for each in fields(Rows)):
        here, there = getattr(found, part), getattr(wanted, part)
        if here == there:
            continue
        if isinstance(here, dict):
            told += [
                f"{part} {key}: {_told(here.get(key), there.get(key))}"
                for key in here.keys() | there.keys()
                if here.get(key) != there.get(key)
            ]
        else:
            told.append(f"{part}: {_told(here, there)}")
    return told


def _told(here: Any, there: Any) -> str:
    if isinstance(here, dict) and isinstance(there, dict):
        return "; ".join(
            f"{name} found {here.get(name)}, wanted {there.get(name)}"
            for name in here
            if here.get(name) != there.get(name)
        )
    return f"found {here}, wanted {there}"
