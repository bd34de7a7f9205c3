"""What a column of an adopter's must be, so that the law's statements mean what they say.

More columns, and more values of a status, are nobody's business but the adopter's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.adoption.obstacle import Obstacle
from app.domain.appointment import AppointmentStatus
from app.domain.booking import CANCEL_REASONS
from app.domain.event import EventOrigin, EventStatus
from app.domain.reminder import ReminderStatus
from app.domain.slot import SlotStatus
from app.store.adoptable import Behind, Column, Relation
from app.store.privileges import GRANTS


@dataclass(frozen=True, slots=True)
class Kind:
    """The types that will do, by PostgreSQL's own names, and what must fit in."""

    declared: str
    bases: tuple[str, ...]
    words: tuple[str, ...] = ()


UUID = Kind("uuid", ("uuid",))
INSTANT = Kind("timestamptz", ("timestamptz",))
WHOLE = Kind("integer", ("int2", "int4", "int8"))
TRUTH = Kind("boolean", ("bool",))
HOLDER = Kind("xid", ("xid",))


def words(*fitting: str) -> Kind:
    """Text of any length that lets these in, or an enum that has them."""
    return Kind("text", ("text", "varchar"), fitting)


WANTED: Mapping[str, Mapping[str, Kind]] = {
    "appointments": {
        **dict.fromkeys(("id", "tenant_id", "slot_id", "calendar_event_id"), UUID),
        **dict.fromkeys(("investor_id", "agent_id", "cancelled_by"), UUID),
        **dict.fromkeys(("created_at", "updated_at", "pending_expires_at"), INSTANT),
        "status": words(*AppointmentStatus),
        "version": WHOLE,
    },
    "availability_slots": {
        **dict.fromkeys(("id", "tenant_id", "agent_id"), UUID),
        **dict.fromkeys(("start_at", "end_at", "updated_at"), INSTANT),
        **dict.fromkeys(("min_lead_time_minutes", "version"), WHOLE),
        "status": words(*SlotStatus),
        "auto_confirm": TRUTH,
    },
    "calendar_events": {
        **dict.fromkeys(("id", "tenant_id"), UUID),
        **dict.fromkeys(("start_at", "end_at", "updated_at"), INSTANT),
        "origin": words(*EventOrigin),
        "status": words(*EventStatus),
        "cancel_reason": words(*CANCEL_REASONS.values()),
        "version": WHOLE,
    },
    "event_reminders": {
        **dict.fromkeys(("id", "calendar_event_id"), UUID),
        **dict.fromkeys(("remind_at", "updated_at"), INSTANT),
        "status": words(*ReminderStatus),
    },
}
TABLES = tuple(WANTED)
_WRITTEN = {
    table: {column for one in GRANTS if one.table == table for column in one.columns}
    for table in TABLES
}
_DEFAULTS = {
    "version": " NOT NULL DEFAULT 1",
    "updated_at": " NOT NULL DEFAULT now()",
    "min_lead_time_minutes": " NOT NULL DEFAULT 0",
    "auto_confirm": " NOT NULL DEFAULT false",
    "origin": " NOT NULL DEFAULT 'Appointment'",
}


def obstacles(relation: Relation, behind: Behind, schema: str) -> Iterator[Obstacle]:
    """What keeps the product from working on these columns."""
    wanted = dict(WANTED[relation.name])
    if relation.is_view:
        wanted["xmax"] = HOLDER
    for name, kind in wanted.items():
        where = f"{schema}.{relation.name}"
        column = relation.columns.get(name)
        if column is None:
            yield Obstacle(f"{where} has no column {name}.", _added(relation, where, name, kind))
            continue
        yield from _mistyped(behind, where, column, kind)
        if name in _WRITTEN[relation.name] and not column.writable:
            yield Obstacle(
                f"{where}.{name} cannot be written: it is computed.",
                "Let it be a plain column, of the view or of the table.",
            )


def _added(relation: Relation, where: str, name: str, kind: Kind) -> str:
    if relation.is_view:
        return f"`CREATE OR REPLACE VIEW {where}` with {name} as its last column."
    added = f"{name} {kind.declared}{_DEFAULTS.get(name, '')}"
    return f"`ALTER TABLE {where} ADD COLUMN {added}`, or let a view stand for the table."


def _mistyped(behind: Behind, where: str, column: Column, kind: Kind) -> Iterator[Obstacle]:
    own = behind.columns[column.name]
    altered = f"ALTER TABLE {behind.name} ALTER COLUMN {own} TYPE"
    if kind is INSTANT and column.base == "timestamp":
        yield Obstacle(
            f"{where}.{column.name} is a timestamp without time zone: which instant it means, the"
            " database does not know (D2).",
            f"`{altered} timestamptz USING {own} AT TIME ZONE 'UTC'`, with the zone that your"
            " application means; it rewrites the table.",
        )
    elif column.labels is not None and kind.words:
        lacked = [word for word in kind.words if word not in column.labels]
        if lacked:
            statements = "; ".join(
                f"ALTER TYPE {column.declared} ADD VALUE '{word}'" for word in lacked
            )
            yield Obstacle(
                f"The enum {column.declared} of {where}.{column.name} lacks {', '.join(lacked)}.",
                f"`{statements}`",
            )
    elif column.base not in kind.bases:
        yield Obstacle(
            f"{where}.{column.name} is of type {column.declared}, not {kind.declared}.",
            f"`{altered} {kind.declared} USING {own}::{kind.declared}`, or keep yours beside a new"
            " column of that type.",
        )
    elif column.length is not None and column.length < max(map(len, kind.words), default=0):
        yield Obstacle(
            f"{where}.{column.name} holds {column.length} characters; some of ours are longer.",
            f"`{altered} text`",
        )
