"""What the two fast statements do is what the rules say: every combination, every boundary.

The oracle is the specification's own sentence (C1, C3, C4), written here once more on purpose.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from app.domain.law import Refusal
from app.store import claims, endings
from tests.world import Made, World

TICK = timedelta(microseconds=1)
RUN = "equivalence"


@dataclass(frozen=True)
class Case:
    """One combination; the two offsets are distances from the boundary."""

    appointment: str
    slot: str
    event: str
    origin: str
    deadline_from_as_of: timedelta | None
    bookable_until_from_as_of: timedelta

    @property
    def claimed(self) -> bool:
        """C1."""
        deadline = self.deadline_from_as_of
        return self.appointment == "Pending" and deadline is not None and deadline < timedelta(0)

    @property
    def lawful(self) -> bool:
        """C4: everything else is poison."""
        return (self.slot, self.event, self.origin) == ("Booked", "Scheduled", "Appointment")

    @property
    def slot_after(self) -> str:
        """C3.2."""
        return "Available" if self.bookable_until_from_as_of >= timedelta(0) else "Expired"


OFFSETS = (-TICK, timedelta(0), TICK)
CASES = [
    Case(*combination)
    for combination in product(
        ("Pending", "Confirmed", "Declined", "Cancelled", "Expired"),
        ("Available", "Booked", "Expired"),
        ("Scheduled", "Cancelled", "Completed"),
        ("Appointment", "Manual"),
        (*OFFSETS, None),
        (-TICK, timedelta(0), TICK),
    )
]


def place(world: World, connection: Connection, case: Case, as_of: datetime) -> Made:
    """A row exactly on its side of the boundaries."""
    reminders = ("Sent", "Skipped") if case.event == "Cancelled" else ("Pending", "Sent", "Pending")
    made = world.appointment(
        status=case.appointment,
        slot_status=case.slot,
        event_status=case.event,
        origin=case.origin,
        lead_minutes=45,
        reminders=reminders,
    )
    offset = case.deadline_from_as_of
    connection.execute(
        text("UPDATE calendar.appointments SET pending_expires_at = :deadline WHERE id = :id"),
        {"deadline": None if offset is None else as_of + offset, "id": made.appointment},
    )
    connection.execute(
        text("UPDATE calendar.availability_slots SET start_at = :t, end_at = :t WHERE id = :id"),
        {
            "t": as_of + case.bookable_until_from_as_of + timedelta(minutes=45),
            "id": made.slot,
        },
    )
    connection.commit()
    return made


def expire(connection: Connection, as_of: datetime, made: Made) -> str:
    """The very statements of the cycle, at an `AsOf` of our choice."""
    claim = claims.claim(connection, claims.Wanted(as_of, claims.START, made.appointment))
    by_scan = claims.claim(connection, claims.Wanted(as_of, claims.START))
    assert (claim is None) == (by_scan is None)
    if claim is None:
        return "not claimed"
    assert claim == by_scan
    try:
        endings.save_ending(connection, claim.booking.expire(as_of, RUN))
    except Refusal:
        return "refused"
    return "expired"


@pytest.fixture
def prepared(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as connection:
        for statement in (claims.CLAIM_NEXT, claims.CLAIM_ONE, endings.SAVE_ENDING):
            statement.prepare(connection)
        connection.rollback()
        yield connection


def expected(before: dict[str, Any], case: Case, as_of: datetime) -> dict[str, Any]:
    """The rows as C3 wants them."""
    changed = {"updated_at": as_of, "version": 2}
    [appointment], [slot], [event] = before["appointment"], before["slot"], before["event"]
    return {
        "appointment": [{**appointment, **changed, "status": "Expired"}],
        "slot": [{**slot, **changed, "status": case.slot_after}],
        "event": [
            {
                **event,
                **changed,
                "status": "Cancelled",
                "cancel_reason": "Запись не подтверждена агентом в срок",
            }
        ],
        "reminders": [
            {**row, "status": "Skipped", "updated_at": as_of} if row["status"] == "Pending" else row
            for row in before["reminders"]
        ],
    }


def test_the_fast_statements_and_the_rules_agree_everywhere(
    world: World, prepared: Connection
) -> None:
    as_of = world.now()
    outcomes = dict.fromkeys(("not claimed", "refused", "expired"), 0)
    for case in CASES:
        made = place(world, prepared, case, as_of)
        before = world.state(made)
        outcome = expire(prepared, as_of, made)
        prepared.commit() if outcome == "expired" else prepared.rollback()
        after = world.state(made)
        messages = after.pop("messages")
        before.pop("messages")
        if case.claimed and case.lawful:
            assert outcome == "expired", case
            assert after == expected(before, case, as_of), case
            assert len(messages) == 2, case
        else:
            assert outcome == ("refused" if case.claimed else "not claimed"), case
            assert after == before, case
            assert messages == [], case
        outcomes[outcome] += 1
        world.execute("DELETE FROM calendar.appointments")
    assert all(outcomes.values()), outcomes
