"""`python -m dev.states`: docs/how-it-works.md's diagrams, drawn from the law itself.

Every move of every noun is tried on every status; what the law does not refuse is an arrow.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from app.domain import booking
from app.domain.appointment import AppointmentStatus
from app.domain.booking import Booking, Ending
from app.domain.event import CalendarEvent, EventOrigin, EventStatus
from app.domain.law import Refusal
from app.domain.reminder import EventReminder, ReminderStatus
from app.domain.slot import Slot, SlotStatus
from dev.processes import ROOT

PAGE = ROOT / "docs" / "how-it-works.md"
BEGIN, END = "<!-- drawn by `python -m dev.states`: do not edit -->\n", "<!-- drawn so far -->\n"

_INVESTOR, _AGENT, _ID = (UUID(int=number) for number in range(3))
_BOOKED_AT = datetime(2026, 1, 1, tzinfo=UTC)
_IN_TIME = _BOOKED_AT + timedelta(hours=25)
"""Past the agent's 24 hours, and the slot can still be booked."""
_TOO_LATE = _BOOKED_AT + timedelta(hours=73)

_SLOT = Slot(
    id=_ID,
    tenant_id=_ID,
    agent_id=_AGENT,
    status=SlotStatus.AVAILABLE,
    start_at=_BOOKED_AT + timedelta(hours=72),
    end_at=_BOOKED_AT + timedelta(hours=73),
    min_lead_time_minutes=60,
    auto_confirm=False,
    updated_at=_BOOKED_AT,
    version=1,
)


def _book(slot: Slot) -> Booking:
    appointment, booked = booking.book(
        slot, appointment_id=_ID, event_id=_ID, investor_id=_INVESTOR, as_of=_BOOKED_AT
    )
    event = CalendarEvent(
        id=_ID,
        tenant_id=_ID,
        origin=EventOrigin.APPOINTMENT,
        status=EventStatus.SCHEDULED,
        updated_at=_BOOKED_AT,
        version=1,
    )
    reminder = EventReminder(
        id=_ID, calendar_event_id=_ID, status=ReminderStatus.PENDING, updated_at=_BOOKED_AT
    )
    return Booking(appointment=appointment, slot=booked, event=event, reminders=(reminder,))


_BOOKING = _book(_SLOT)
_BORN = {
    "booked": _BOOKING.appointment.status,
    "booked, auto-confirm": _book(replace(_SLOT, auto_confirm=True)).appointment.status,
}
_ENDS: dict[str, Callable[[datetime], Ending]] = {
    "nobody decides in time": lambda at: _BOOKING.expire(at, ""),
    "the agent declines": lambda at: _BOOKING.decline(at, ""),
    "the investor cancels": lambda at: _BOOKING.cancel(at, _INVESTOR, ""),
    "the agent cancels": lambda at: _BOOKING.cancel(at, _AGENT, ""),
}


@dataclass(frozen=True)
class _Noun:
    name: str
    statuses: type[StrEnum]
    example: Any
    moves: Mapping[str, Callable[[Any], Any]]


_NOUNS = (
    _Noun(
        "Appointment",
        AppointmentStatus,
        _BOOKING.appointment,
        {
            "the agent confirms": lambda one: one.confirm(_IN_TIME),
            "the agent declines": lambda one: one.decline(_IN_TIME),
            "investor or agent cancels": lambda one: one.cancel(_IN_TIME, _AGENT),
            "nobody decides in time": lambda one: one.expire(_IN_TIME),
        },
    ),
    _Noun(
        "Slot",
        SlotStatus,
        _SLOT,
        {
            "booked": lambda one: one.book(_BOOKED_AT),
            "its appointment ends while it can still be booked": lambda one: one.release(_IN_TIME),
            "its appointment ends later": lambda one: one.release(_TOO_LATE),
        },
    ),
    _Noun(
        "Calendar event of an appointment",
        EventStatus,
        _BOOKING.event,
        {"its appointment ends": lambda one: one.cancel(_IN_TIME, "")},
    ),
    _Noun(
        "Reminder",
        ReminderStatus,
        _BOOKING.reminders[0],
        {"its appointment ends": lambda one: one.skip(_IN_TIME)},
    ),
)


def drawn() -> str:
    """What stands between the page's two marks, and they."""
    diagrams = "".join(_diagram(noun) for noun in _NOUNS)
    return f"{BEGIN}\n{diagrams}{_table()}\n{END}"


def _diagram(noun: _Noun) -> str:
    arrows = [f"[*] --> {status}: {how}" for how, status in _BORN.items()]
    lines = arrows if noun.statuses is AppointmentStatus else []
    lines += [f"{old} --> {new}: {how}" for old, how, new in _arrows(noun)]
    lines += [one for one in noun.statuses if not any(one in line for line in lines)]
    return (
        f"**{noun.name}**\n\n```mermaid\nstateDiagram-v2\n    " + "\n    ".join(lines) + "\n```\n\n"
    )


def _arrows(noun: _Noun) -> Iterator[tuple[str, str, str]]:
    for status in noun.statuses:
        for how, move in noun.moves.items():
            try:
                moved = move(replace(noun.example, status=status))
            except Refusal:  # the law forbids it: no arrow
                continue
            yield status, how, moved.status


def _table() -> str:
    """What each end of an appointment brings about (C3)."""
    rows = ["| what happens | appointment | its slot | event | reminders | `Reason`", "|---" * 6]
    for what, end in _ENDS.items():
        ended, late = end(_IN_TIME), end(_TOO_LATE)
        reason = ended.messages[0].payload.partition('"Reason":"')[2].partition('"')[0]
        rows.append(
            f"| {what} | `{ended.appointment.status}` | `{ended.slot.status}`,"
            f" too late to be booked: `{late.slot.status}` | `{ended.event.status}`"
            f" | `Pending` → `{ended.reminders[0].status}` | `{reason}`"
        )
    return " |\n".join([*rows, ""])


def main() -> None:
    """Draw anew what the page shows."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        sys.exit(f"{PAGE.name} has lost its marks.")
    PAGE.write_text(before + drawn() + after)


if __name__ == "__main__":
    main()
