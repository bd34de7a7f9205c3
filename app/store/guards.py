"""Which rows of an adopter's break what our own schema refuses, and which of it his refuses too."""

from sqlalchemy import Connection, text

from app.store.audit_bookings import APPOINTMENTS, EVENTS, HOLDING, SLOTS

REMINDERS = "calendar.event_reminders"


def _dangling(table: str, column: str, target: str) -> str:
    return f"""FROM {table} dangling WHERE {column} IS NOT NULL
        AND NOT EXISTS (SELECT FROM {target} there WHERE there.id = dangling.{column})"""


_REMINDED = f"""FROM {REMINDERS} reminder JOIN {EVENTS} event ON event.id = calendar_event_id
    WHERE event.status = 'Cancelled' AND reminder.status = 'Pending'"""
_CROWDED = f"""FROM (SELECT FROM {APPOINTMENTS} WHERE status IN {HOLDING} AND slot_id IS NOT NULL
    GROUP BY slot_id HAVING count(*) > 1) crowded"""

OFFENDERS = {
    "appointments_slot_id_fkey": _dangling(APPOINTMENTS, "slot_id", SLOTS),
    "appointments_calendar_event_id_fkey": _dangling(APPOINTMENTS, "calendar_event_id", EVENTS),
    "event_reminders_calendar_event_id_fkey": _dangling(REMINDERS, "calendar_event_id", EVENTS),
    "slot_lead_time_not_negative": f"FROM {SLOTS} WHERE min_lead_time_minutes < 0",
    "slot_ends_after_start": f"FROM {SLOTS} WHERE end_at < start_at",
    "event_ends_after_start": f"FROM {EVENTS} WHERE end_at < start_at",
    "ux_appointments_one_active_per_slot": _CROWDED,
    "no_pending_reminder_on_cancelled_event": _REMINDED,
}
"""By the guard's name, the rows that break it; statuses are none of these: more of them may be."""


def offenders(connection: Connection, name: str) -> int:
    """How many rows (of the one-per-slot guard: slots) break the guard of this name."""
    return int(connection.execute(text(f"SELECT count(*) {OFFENDERS[name]}")).scalar_one())


def references(connection: Connection) -> set[str]:
    """Those of our references that a validated foreign key of any name stands for."""
    return set(connection.execute(_REFERENCES).scalars())


_REFERENCES = text(
    """
    SELECT wanted.name FROM (VALUES
        ('appointments_slot_id_fkey',
         to_regclass('calendar.appointments'), 'slot_id',
         to_regclass('calendar.availability_slots')),
        ('appointments_calendar_event_id_fkey',
         to_regclass('calendar.appointments'), 'calendar_event_id',
         to_regclass('calendar.calendar_events')),
        ('event_reminders_calendar_event_id_fkey',
         to_regclass('calendar.event_reminders'), 'calendar_event_id',
         to_regclass('calendar.calendar_events'))
    ) wanted (name, source, key, target)
    JOIN pg_constraint ON conrelid = source AND confrelid = target AND contype = 'f'
        AND convalidated
    JOIN pg_attribute ON attrelid = source AND attname = key AND conkey = ARRAY[attnum]
    """
)
