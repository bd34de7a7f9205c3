"""The moves of each noun: all that the tables allow, nothing else, and how a refusal reads."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from app.domain.appointment import Appointment, pending_expires_at
from app.domain.event import CalendarEvent
from app.domain.law import NaiveTimeError, Refusal, instant
from app.domain.reminder import EventReminder
from app.domain.slot import Slot

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TICK = timedelta(microseconds=1)
STATUSES = ("Pending", "Confirmed", "Declined", "Cancelled", "Expired", "Rescheduled")


def appointment(status: str = "Pending", deadline: datetime | None = NOW - MINUTE) -> Appointment:
    return Appointment(
        id=uuid4(),
        tenant_id=uuid4(),
        slot_id=uuid4(),
        calendar_event_id=uuid4(),
        investor_id=uuid4(),
        agent_id=uuid4(),
        status=status,
        updated_at=NOW - MINUTE,
        version=7,
        pending_expires_at=deadline,
    )


def slot(status: str = "Booked", bookable_until: datetime = NOW, lead: int = 60) -> Slot:
    start = bookable_until + lead * MINUTE
    return Slot(
        id=uuid4(),
        tenant_id=uuid4(),
        agent_id=uuid4(),
        status=status,
        start_at=start,
        end_at=start + 60 * MINUTE,
        min_lead_time_minutes=lead,
        auto_confirm=False,
        updated_at=NOW - MINUTE,
        version=3,
    )


def event(status: str = "Scheduled", origin: str = "Appointment") -> CalendarEvent:
    return CalendarEvent(
        id=uuid4(), tenant_id=uuid4(), origin=origin, status=status, updated_at=NOW, version=4
    )


MOVES: dict[str, tuple[Callable[[Appointment], Appointment], str, set[str]]] = {
    "confirm": (lambda a: a.confirm(NOW), "Confirmed", {"Pending"}),
    "decline": (lambda a: a.decline(NOW), "Declined", {"Pending"}),
    "cancel": (lambda a: a.cancel(NOW, a.agent_id), "Cancelled", {"Pending", "Confirmed"}),
    "expire": (lambda a: a.expire(NOW), "Expired", {"Pending"}),
}


@pytest.mark.parametrize("found", STATUSES)
@pytest.mark.parametrize("name", MOVES)
def test_an_appointment_moves_only_where_the_table_leads(name: str, found: str) -> None:
    move, to, allowed = MOVES[name]
    before = appointment(found)
    if found in allowed:
        after = move(before)
        assert (after.status, after.version, after.updated_at) == (to, 8, NOW)
    else:
        with pytest.raises(Refusal) as refused:
            move(before)
        text = str(refused.value)
        assert "appointment" in text
        assert str(before.id) in text
        assert f"found {found}" in text
        assert "wanted Pending" in text
        assert (before.status, before.version) == (found, 7)


def test_c3_1_expiry_leaves_cancelled_by_untouched_and_cancel_sets_it() -> None:
    assert appointment().expire(NOW).cancelled_by is None
    investor = uuid4()
    assert appointment().cancel(NOW, investor).cancelled_by == investor


@pytest.mark.parametrize("deadline", [None, NOW, NOW + TICK])
def test_c1_an_appointment_that_is_not_overdue_is_refused(deadline: datetime | None) -> None:
    with pytest.raises(Refusal, match="not overdue"):
        appointment(deadline=deadline).expire(NOW)


def test_c1_overdue_is_strict() -> None:
    assert appointment(deadline=NOW - TICK).expire(NOW).status == "Expired"


@pytest.mark.parametrize(
    ("bookable_until", "outcome"),
    [(NOW + TICK, "Available"), (NOW, "Available"), (NOW - TICK, "Expired")],
)
def test_c3_2_a_slot_returns_while_it_can_still_be_booked(
    bookable_until: datetime, outcome: str
) -> None:
    released = slot(bookable_until=bookable_until).release(NOW)
    assert (released.status, released.version, released.updated_at) == (outcome, 4, NOW)


@pytest.mark.parametrize("found", ["Available", "Expired", "Reserved"])
def test_a_slot_that_is_not_booked_is_not_released(found: str) -> None:
    with pytest.raises(Refusal, match=f"slot .* found {found}, wanted Booked"):
        slot(found).release(NOW)


def test_a_slot_is_booked_up_to_its_lead_time_and_not_after() -> None:
    assert slot("Available", bookable_until=NOW).book(NOW).status == "Booked"
    with pytest.raises(Refusal, match="lead time begun"):
        slot("Available", bookable_until=NOW - TICK).book(NOW)


@pytest.mark.parametrize("found", ["Booked", "Expired"])
def test_a_slot_that_is_not_available_is_not_booked(found: str) -> None:
    with pytest.raises(Refusal, match=f"found {found}, wanted Available"):
        slot(found).book(NOW)


def test_c3_3_an_event_is_cancelled_with_its_reason() -> None:
    cancelled = event().cancel(NOW, "because")
    assert (cancelled.status, cancelled.cancel_reason, cancelled.version) == (
        "Cancelled",
        "because",
        5,
    )


@pytest.mark.parametrize(
    ("status", "origin", "found"),
    [
        ("Cancelled", "Appointment", "Cancelled"),
        ("Completed", "Appointment", "Completed"),
        ("Scheduled", "Manual", "Manual"),
    ],
)
def test_an_event_that_is_not_its_appointments_own_stays(
    status: str, origin: str, found: str
) -> None:
    with pytest.raises(Refusal, match=f"event .* found {found}"):
        event(status, origin).cancel(NOW, "because")


def test_c3_4_a_pending_reminder_is_skipped_and_no_other() -> None:
    pending = EventReminder(
        id=uuid4(), calendar_event_id=uuid4(), status="Pending", updated_at=NOW - MINUTE
    )
    skipped = pending.skip(NOW)
    assert (skipped.status, skipped.updated_at) == ("Skipped", NOW)
    with pytest.raises(Refusal, match="found Skipped, wanted Pending"):
        skipped.skip(NOW)


def test_d1_the_deadline_is_the_earlier_of_a_day_and_the_lead_time() -> None:
    day = timedelta(hours=24)
    assert pending_expires_at(NOW, slot(bookable_until=NOW + day + TICK)) == NOW + day
    assert pending_expires_at(NOW, slot(bookable_until=NOW + MINUTE)) == NOW + MINUTE


def test_d1_a_booking_that_would_be_overdue_when_made_is_refused() -> None:
    with pytest.raises(Refusal, match="no time left to confirm"):
        pending_expires_at(NOW, slot(bookable_until=NOW))


def test_d2_a_naive_time_is_refused_and_an_aware_one_is_read_as_utc() -> None:
    with pytest.raises(NaiveTimeError, match="no offset"):
        instant(datetime(2026, 11, 30, 12))  # noqa: DTZ001 - naive on purpose
    assert instant(datetime.fromisoformat("2026-11-30T15:00:00+03:00")) == NOW
