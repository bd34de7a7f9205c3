"""What hangs together: appointment, slot, event and reminders, at any moment and after an ending.

A status that the law does not know is an adopter's: nothing is concluded from it.
"""

from app.domain.appointment import ACTIVE, AppointmentStatus
from app.domain.booking import CANCEL_REASONS
from app.domain.outbox import Reason
from app.store.audit import Check, Severity

APPOINTMENTS = "calendar.appointments"
SLOTS = "calendar.availability_slots"
EVENTS = "calendar.calendar_events"


def listed(statuses: tuple[AppointmentStatus, ...]) -> str:
    """Statuses as an SQL list."""
    return "(" + ", ".join(f"'{status}'" for status in statuses) + ")"


HOLDING = listed(ACTIVE)
ENDED = listed(tuple(status for status in AppointmentStatus if status not in ACTIVE))

SLOT_CHECKS = (
    Check(
        name="booked-slot-is-held",
        rule="C3.2",
        says="A Booked slot has its active appointment",
        table=SLOTS,
        sql=f"""
        SELECT id, 'Booked without an active appointment' AS found, 'a freed slot' AS wanted
        FROM {SLOTS} slot WHERE status = 'Booked' AND NOT EXISTS (
            SELECT FROM {APPOINTMENTS} WHERE slot_id = slot.id AND status NOT IN {ENDED})
        """,
    ),
    Check(
        name="active-appointment-holds-its-slot",
        rule="R3",
        says="An active appointment's slot is Booked, never free or expired under it",
        table=APPOINTMENTS,
        sql=f"""
        SELECT appointment.id, appointment.status || ' on '
            || coalesce('an ' || slot.status || ' slot', 'no slot') AS found,
            'a Booked slot' AS wanted
        FROM {APPOINTMENTS} appointment LEFT JOIN {SLOTS} slot ON slot.id = appointment.slot_id
        WHERE appointment.status IN {HOLDING}
          AND (slot.id IS NULL OR slot.status IN ('Available', 'Expired'))
        """,
    ),
    Check(
        name="one-active-appointment-per-slot",
        rule="D4",
        says="At most one active appointment stands on a slot",
        table=APPOINTMENTS,
        sql=f"""
        SELECT slot_id AS id, count(*) || ' active appointments' AS found, 'one' AS wanted
        FROM {APPOINTMENTS} WHERE status IN {HOLDING} AND slot_id IS NOT NULL
        GROUP BY slot_id HAVING count(*) > 1
        """,
    ),
    # Only where the ending was the slot's last change, and by the law (which counts versions).
    Check(
        name="freed-by-the-rule",
        rule="C3.2",
        says="A freed slot is Available while it can still be booked, else Expired",
        table=SLOTS,
        sql=f"""
        SELECT * FROM (
            SELECT slot.id, slot.status::text AS found, CASE
                WHEN appointment.updated_at
                     <= slot.start_at - make_interval(mins => slot.min_lead_time_minutes::integer)
                THEN 'Available' ELSE 'Expired' END AS wanted
            FROM {APPOINTMENTS} appointment JOIN {SLOTS} slot ON slot.id = appointment.slot_id
                AND slot.updated_at = appointment.updated_at
            WHERE appointment.status IN {ENDED} AND appointment.version > 1 AND slot.version > 1
              AND slot.status IN ('Available', 'Expired')
        ) freed WHERE found <> wanted
        """,
    ),
)

EVENT_CHECKS = (
    Check(
        name="ended-appointment-cancels-its-event",
        rule="C3.3",
        says="The event of an ended appointment is not Scheduled any more",
        table=APPOINTMENTS,
        sql=f"""
        SELECT appointment.id, appointment.status || ' with a Scheduled event' AS found,
            'a Cancelled event' AS wanted
        FROM {APPOINTMENTS} appointment
        JOIN {EVENTS} event ON event.id = appointment.calendar_event_id
        WHERE appointment.status IN {ENDED} AND event.status = 'Scheduled'
        """,
    ),
    # A confirmed one's event is Completed once it has taken place.
    Check(
        name="active-appointment-keeps-its-event",
        rule="C3.3",
        says="The event of an active appointment is Scheduled",
        table=APPOINTMENTS,
        sql=f"""
        SELECT appointment.id, appointment.status || ' with '
            || coalesce('a ' || event.status || ' event', 'no event') AS found,
            'a Scheduled event' AS wanted
        FROM {APPOINTMENTS} appointment
        LEFT JOIN {EVENTS} event ON event.id = appointment.calendar_event_id
        WHERE appointment.status = 'Pending' AND event.status IS DISTINCT FROM 'Scheduled'
           OR appointment.status = 'Confirmed' AND (event.id IS NULL OR event.status = 'Cancelled')
        """,
    ),
    Check(
        name="expired-event-says-why",
        rule="C3.3",
        says="The event of an expired appointment carries the customer's reason",
        table=EVENTS,
        sql=f"""
        SELECT event.id, 'another CancelReason' AS found, 'that of expiry' AS wanted
        FROM {APPOINTMENTS} appointment
        JOIN {EVENTS} event ON event.id = appointment.calendar_event_id
        WHERE appointment.status = 'Expired' AND event.status = 'Cancelled'
          AND event.cancel_reason IS DISTINCT FROM '{CANCEL_REASONS[Reason.EXPIRED]}'
        """,
    ),
    Check(
        name="cancelled-event-reminds-nobody",
        rule="D4",
        says="No Pending reminder hangs on a Cancelled event",
        table="calendar.event_reminders",
        sql=f"""
        SELECT event.id, 'Cancelled with Pending reminders: ' || count(*) AS found,
            'Sent or Skipped ones' AS wanted
        FROM {EVENTS} event
        JOIN calendar.event_reminders reminder ON reminder.calendar_event_id = event.id
        WHERE event.status = 'Cancelled' AND reminder.status = 'Pending' GROUP BY event.id
        """,
    ),
    Check(
        name="pending-event-can-be-cancelled",
        rule="C4",
        says="The event of a Pending appointment came from an appointment, or it cannot expire",
        table=APPOINTMENTS,
        severity=Severity.WARNING,
        sql=f"""
        SELECT appointment.id, 'Pending with an event of origin ' || event.origin AS found,
            'origin Appointment' AS wanted
        FROM {APPOINTMENTS} appointment
        JOIN {EVENTS} event ON event.id = appointment.calendar_event_id
        WHERE appointment.status = 'Pending' AND event.origin <> 'Appointment'
        """,
    ),
)

CHECKS = (*SLOT_CHECKS, *EVENT_CHECKS)
