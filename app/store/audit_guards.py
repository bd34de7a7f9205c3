"""Whether the database itself still refuses what the domain forbids (D3, D4).

Warnings: an adopted schema may guard itself by other names.
"""

from app.store.audit import Check, Severity
from app.store.audit_bookings import APPOINTMENTS, EVENTS, SLOTS

REMINDERS = "calendar.event_reminders"
CONSTRAINTS = (
    (APPOINTMENTS, "appointment_status_known"),
    (SLOTS, "slot_status_known"),
    (SLOTS, "slot_lead_time_not_negative"),
    (SLOTS, "slot_ends_after_start"),
    (EVENTS, "event_status_known"),
    (EVENTS, "event_origin_known"),
    (EVENTS, "event_ends_after_start"),
    (REMINDERS, "reminder_status_known"),
    ("calendar.outbox_messages", "one_message_per_change"),
)
TRIGGERS = (
    (REMINDERS, "no_pending_reminder_on_cancelled_event"),
    (EVENTS, "no_pending_reminder_on_cancelled_event"),
    (APPOINTMENTS, "forget_expiry_failure_on_update"),
    (APPOINTMENTS, "forget_expiry_failure_on_delete"),
)
INDEXES = ("ux_appointments_one_active_per_slot", "ix_appointments_pending_expires_at")


def _rows(pairs: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"('{table}', '{name}')" for table, name in pairs)


CHECKS = (
    Check(
        name="guards-stand",
        rule="D4",
        says="Constraints, triggers and the two indexes of the rules are there and at work",
        table="pg_catalog.pg_constraint",
        severity=Severity.WARNING,
        sql=f"""
        SELECT relation || '.' || name AS id, 'missing or off' AS found, 'at work' AS wanted
        FROM (VALUES {_rows(CONSTRAINTS)}) guard (relation, name) WHERE NOT EXISTS (
            SELECT FROM pg_constraint WHERE conrelid = to_regclass(relation) AND conname = name
                AND convalidated)
        UNION ALL
        SELECT relation || '.' || name, 'missing or off', 'at work'
        FROM (VALUES {_rows(TRIGGERS)}) guard (relation, name) WHERE NOT EXISTS (
            SELECT FROM pg_trigger WHERE tgrelid = to_regclass(relation) AND tgname = name
                AND tgenabled IN ('O', 'A'))
        UNION ALL
        SELECT 'calendar.' || name, 'missing or invalid', 'at work'
        FROM unnest(ARRAY{list(INDEXES)}) name WHERE NOT EXISTS (
            SELECT FROM pg_index WHERE indexrelid = to_regclass('calendar.' || name)
                AND indisvalid)
        """,
    ),
)
