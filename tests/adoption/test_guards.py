"""Guards: made when they are asked for, where no row breaks them, and never against a status."""

import pytest

from app.adoption import work
from tests.adoption.team import Team


def test_guards_are_made_when_asked_for_where_no_row_breaks_them(in_place: Team) -> None:
    crowded = in_place.book()
    in_place.book(slot=crowded.slot)
    eventless = in_place.book()
    in_place.lose(eventless, "calendar_events")
    in_place.book(status="Cancelled", event_status="Cancelled", slot_status="Available")
    in_place.adopt()
    broken = {one.made.name: count for one, count in work.unguarded(in_place.engine()) if count}
    assert broken == {
        "appointments_calendar_event_id_fkey": 1,
        "event_reminders_calendar_event_id_fkey": 2,
        "ux_appointments_one_active_per_slot": 1,
        "no_pending_reminder_on_cancelled_event": 1,
    }
    in_place.adopt(guarded=True)
    left = {one.made.name: one.state for one, _ in work.unguarded(in_place.engine())}
    assert left == {
        "appointments_calendar_event_id_fkey": "invalid",
        "event_reminders_calendar_event_id_fkey": "invalid",
        "ux_appointments_one_active_per_slot": "missing",
    }
    with pytest.raises(Exception, match="appointments_calendar_event_id_fkey"):
        in_place.run("UPDATE booking.appointments SET calendar_event_id = gen_random_uuid()")
    in_place.run(
        f"""DELETE FROM appointments
        WHERE id IN ('{crowded.appointment}', '{eventless.appointment}');
        DELETE FROM event_reminders r
        WHERE NOT EXISTS (SELECT FROM calendar_events e WHERE e.id = calendar_event_id)"""
    )
    in_place.adopt(guarded=True)
    assert work.unguarded(in_place.engine()) == []
    assert in_place.adopt(guarded=True) == []


def test_further_statuses_are_refused_by_no_guard(in_place: Team) -> None:
    made = in_place.book()
    in_place.adopt(guarded=True)
    in_place.run(
        f"""UPDATE appointments SET status = 'NoShow' WHERE id = '{made.appointment}';
        UPDATE availability_slots SET status = 'Blocked';
        UPDATE event_reminders SET status = 'Lost'"""
    )
    assert in_place.status(made) == "NoShow"


def test_an_equal_reference_of_the_teams_own_is_enough(in_place: Team) -> None:
    in_place.run(
        """ALTER TABLE booking.appointments ADD CONSTRAINT of_slot FOREIGN KEY (slot_id)
        REFERENCES booking.availability_slots"""
    )
    assert "appointments_slot_id_fkey" not in {one.made.name for one in in_place.look().guards}
