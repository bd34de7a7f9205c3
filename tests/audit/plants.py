"""Violations to plant: for every check at least one, and what it is reported as.

Statements know the subject's ids as :a, :s, :e (appointment, slot, event), its two messages as
:cancelled and :changed, and a fresh id as :new; the first and the last also as text.
"""

from dataclasses import dataclass

APPOINTMENT, SLOT, EVENT = "a", "s", "e"
CANCELLED, CHANGED, NEW, NEW_TEXT = "cancelled", "changed", "new", "new_text"


@dataclass(frozen=True)
class Plant:
    """One way to break the rule of a check; `also` names checks that rightly see it as well."""

    check: str
    subject: str
    id: str
    sql: tuple[str, ...]
    also: tuple[str, ...] = ()
    found: str = ""

    def __str__(self) -> str:
        return f"{self.check} {self.sql[-1][:60]}"


def plant(
    check: str, subject: str, id_: str, *sql: str, also: tuple[str, ...] = (), found: str = ""
) -> Plant:
    return Plant(check, subject, id_, sql, also, found)


def appointment(assignments: str) -> str:
    return f"UPDATE calendar.appointments SET {assignments} WHERE id = :a"


def slot(assignments: str) -> str:
    return f"UPDATE calendar.availability_slots SET {assignments} WHERE id = :s"


def event(assignments: str) -> str:
    return f"UPDATE calendar.calendar_events SET {assignments} WHERE id = :e"


def message(assignments: str, which: str = CANCELLED) -> str:
    return f"UPDATE calendar.outbox_messages SET {assignments} WHERE message_id = :{which}"


def said(field: str, value: str, which: str = CANCELLED) -> str:
    """The message says something else in one field."""
    said = f"jsonb_set(payload::jsonb, ARRAY['{field}'], '{value}')"
    return message(f"payload = {said}::json", which)


def new_message(topic: str, key: str = "'k'", columns: str = "", values: str = "") -> str:
    return f"""INSERT INTO calendar.outbox_messages (message_id, topic, key, payload{columns})
        VALUES (:new, '{topic}', {key}, '{{}}'{values})"""


FAILURE = """INSERT INTO calendar.expiry_failures
    (appointment_id, rule, first_failed_at, last_failed_at, attempts, last_run_id)
    VALUES (:{}, 'slot: found Available, wanted Booked', {}, {}, {}, 'run')"""
RUN = """INSERT INTO calendar.job_runs (run_id, job, started_at, finished_at, outcome, result)
    VALUES (:new_text, 'appointment_timeout', {}, {}, {}, {})"""
RESULT = """'{{"ExpiredCount": {}, "SlotsReleasedCount": 1, "SlotsExpiredCount": 1,
    "SkippedLockedCount": 0, "DurationMs": {}}}'"""
SUMS, OFF, NEGATIVE = RESULT.format(2, 9), RESULT.format(3, 9), RESULT.format(2, -9)
COPY = """INSERT INTO calendar.appointments SELECT (jsonb_populate_record(
            kept, jsonb_build_object('id', gen_random_uuid()))).*
          FROM calendar.appointments kept WHERE id = :a"""
FOREIGN = "topic-of-somebody-else"
TWO_OF_A_KEY = """INSERT INTO calendar.outbox_messages
        (message_id, topic, key, payload, published_at)
    VALUES (gen_random_uuid(), 'other', 'k', '{{}}', {}), (:new, 'other', 'k', '{{}}', {})"""

DEADLINES = (
    plant(
        "deadline-unless-auto-confirmed",
        "pending",
        APPOINTMENT,
        slot("auto_confirm = true"),
        found="a deadline on auto-confirm",
    ),
    plant(
        "deadline-within-bounds",
        "pending",
        APPOINTMENT,
        appointment("pending_expires_at = created_at"),
        also=("expired-in-time",),
        found="a deadline not after CreatedAt",
    ),
    plant(
        "deadline-within-bounds",
        "pending",
        APPOINTMENT,
        appointment("pending_expires_at = created_at + interval '24 h 1 s'"),
        found="a deadline later than CreatedAt + 24 h",
    ),
    plant(
        "deadline-within-bounds",
        "pending",
        APPOINTMENT,
        """UPDATE calendar.availability_slots SET start_at = (
            SELECT pending_expires_at + interval '59 min' FROM calendar.appointments WHERE id = :a)
          WHERE id = :s""",
        found="a deadline later than StartAt - MinLeadTimeMinutes",
    ),
    plant(
        "deadline-unless-auto-confirmed",
        "pending",
        APPOINTMENT,
        appointment("pending_expires_at = NULL"),
    ),
    plant(
        "deadline-unless-auto-confirmed",
        "auto",
        APPOINTMENT,
        appointment("pending_expires_at = created_at + interval '1 h'"),
    ),
    plant("auto-confirmed-is-confirmed", "auto", APPOINTMENT, appointment("status = 'Pending'")),
    plant(
        "expired-after-its-deadline",
        "expired",
        APPOINTMENT,
        appointment("pending_expires_at = updated_at"),
        found="Expired not after its deadline",
    ),
    plant(
        "expired-after-its-deadline",
        "expired",
        APPOINTMENT,
        appointment("pending_expires_at = NULL"),
    ),
)

ROWS = (
    plant("cancelled-by-someone", "confirmed", APPOINTMENT, appointment("cancelled_by = agent_id")),
    plant("cancelled-by-someone", "declined", APPOINTMENT, appointment("cancelled_by = agent_id")),
    plant(
        "cancelled-by-someone",
        "by_agent",
        APPOINTMENT,
        appointment("cancelled_by = NULL"),
        found="Cancelled without CancelledBy",
    ),
    plant("cancelled-by-someone", "pending", APPOINTMENT, appointment("cancelled_by = agent_id")),
    plant(
        "cancelled-by-someone",
        "expired",
        APPOINTMENT,
        appointment("cancelled_by = agent_id"),
        found="Expired with CancelledBy",
    ),
    plant(
        "cancelled-by-a-party",
        "by_agent",
        APPOINTMENT,
        appointment("cancelled_by = :new"),
        also=("message-names-its-appointment",),
    ),
    plant("version-of-appointments", "pending", APPOINTMENT, appointment("version = 0")),
    plant("version-of-availability-slots", "pending", SLOT, slot("version = 0")),
    plant("version-of-calendar-events", "pending", EVENT, event("version = 0")),
    plant(
        "times-of-appointments",
        "pending",
        APPOINTMENT,
        appointment("updated_at = created_at - interval '1 us'"),
    ),
    plant(
        "times-of-outbox-messages",
        "expired",
        CANCELLED,
        message("published_at = created_at - interval '1 us'"),
    ),
    plant(
        "times-of-expiry-failures",
        "pending",
        APPOINTMENT,
        FAILURE.format("a", "now()", "now() - interval '1 s'", 1),
    ),
    plant(
        "times-of-job-runs",
        "pending",
        NEW_TEXT,
        RUN.format("now()", "now() - interval '1 s'", "'completed'", SUMS),
    ),
    plant(
        "past-of-appointments",
        "pending",
        APPOINTMENT,
        appointment("updated_at = now() + interval '1 h'"),
    ),
    plant(
        "past-of-availability-slots", "pending", SLOT, slot("updated_at = now() + interval '1 h'")
    ),
    plant(
        "past-of-calendar-events", "pending", EVENT, event("updated_at = now() + interval '1 h'")
    ),
    plant(
        "past-of-event-reminders",
        "pending",
        NEW,
        """INSERT INTO calendar.event_reminders (id, calendar_event_id, remind_at, updated_at)
          VALUES (:new, :e, now(), now() + interval '1 h')""",
    ),
    plant(
        "past-of-outbox-messages",
        "expired",
        CANCELLED,
        message("published_at = now() + interval '1 h'"),
    ),
    plant(
        "past-of-expiry-failures",
        "pending",
        APPOINTMENT,
        FAILURE.format("a", "now()", "now() + interval '1 h'", 1),
    ),
    plant(
        "past-of-job-runs",
        "pending",
        NEW_TEXT,
        RUN.format("now()", "now() + interval '1 h'", "'completed'", SUMS),
    ),
)

TOGETHER = (
    plant("booked-slot-is-held", "declined", SLOT, slot("status = 'Booked'")),
    plant("booked-slot-is-held", "by_agent", SLOT, slot("status = 'Booked'")),
    plant("freed-by-the-rule", "by_agent", SLOT, slot("status = 'Expired'")),
    plant(
        "ended-appointment-cancels-its-event",
        "ancient",
        APPOINTMENT,
        event("status = 'Scheduled'"),
        appointment("status = 'Declined'"),
    ),
    plant(
        "ended-appointment-cancels-its-event",
        "ancient",
        APPOINTMENT,
        event("status = 'Scheduled'"),
        appointment("status = 'Cancelled', cancelled_by = agent_id"),
    ),
    plant(
        "one-active-appointment-per-slot",
        "confirmed",
        SLOT,
        "DROP INDEX calendar.ux_appointments_one_active_per_slot",
        COPY,
        also=("guards-stand",),
    ),
    plant("booked-slot-is-held", "expired", SLOT, slot("status = 'Booked'")),
    plant(
        "active-appointment-holds-its-slot", "pending", APPOINTMENT, slot("status = 'Available'")
    ),
    plant(
        "active-appointment-holds-its-slot", "confirmed", APPOINTMENT, slot("status = 'Expired'")
    ),
    plant(
        "active-appointment-holds-its-slot",
        "pending",
        APPOINTMENT,
        "DELETE FROM calendar.availability_slots WHERE id = :s",
    ),
    plant(
        "one-active-appointment-per-slot",
        "pending",
        SLOT,
        "DROP INDEX calendar.ux_appointments_one_active_per_slot",
        COPY,
        also=("guards-stand",),
    ),
    plant("freed-by-the-rule", "expired", SLOT, slot("status = 'Expired'")),
    plant("freed-by-the-rule", "late", SLOT, slot("status = 'Available'")),
    plant("freed-by-the-rule", "declined", SLOT, slot("status = 'Expired'")),
    plant(
        "ended-appointment-cancels-its-event", "ancient", APPOINTMENT, event("status = 'Scheduled'")
    ),
    plant(
        "active-appointment-keeps-its-event", "pending", APPOINTMENT, event("status = 'Completed'")
    ),
    plant(
        "active-appointment-keeps-its-event",
        "confirmed",
        APPOINTMENT,
        "DELETE FROM calendar.event_reminders WHERE calendar_event_id = :e",
        event("status = 'Cancelled'"),
    ),
    plant(
        "active-appointment-keeps-its-event",
        "confirmed",
        APPOINTMENT,
        "DELETE FROM calendar.calendar_events WHERE id = :e",
    ),
    plant("expired-event-says-why", "expired", EVENT, event("cancel_reason = 'because'")),
    plant("expired-event-says-why", "expired", EVENT, event("cancel_reason = NULL")),
    plant(
        "cancelled-event-reminds-nobody",
        "declined",
        EVENT,
        """INSERT INTO calendar.event_reminders (calendar_event_id, remind_at)
          VALUES (:e, now()), (:e, now())""",
    ),
    plant("pending-event-can-be-cancelled", "pending", APPOINTMENT, event("origin = 'Manual'")),
)

BOTH = "DELETE FROM calendar.outbox_messages WHERE message_id IN (:cancelled, :changed)"
MESSAGES = (
    plant("ended-has-its-pair", "by_agent", APPOINTMENT, BOTH),
    plant("cancelled-message-tells-the-ending", "expired", CANCELLED, said("Reason", '"Declined"')),
    plant("cancelled-message-tells-the-ending", "by_agent", CANCELLED, said("Reason", '"Expired"')),
    plant(
        "cancelled-message-tells-the-ending",
        "declined",
        CANCELLED,
        appointment("status = 'Pending'"),
        slot("status = 'Booked'"),
        also=("active-appointment-keeps-its-event",),
    ),
    plant("expired-has-its-pair", "expired", APPOINTMENT, BOTH),
    plant("ended-has-its-pair", "declined", APPOINTMENT, BOTH),
    plant(
        "messages-come-in-pairs",
        "expired",
        CHANGED,
        "DELETE FROM calendar.outbox_messages WHERE message_id = :cancelled",
    ),
    plant(
        "messages-come-in-pairs",
        "declined",
        CANCELLED,
        "DELETE FROM calendar.outbox_messages WHERE message_id = :changed",
    ),
    plant(
        "one-message-per-ending",
        "expired",
        "first_version",
        """INSERT INTO calendar.outbox_messages (message_id, topic, key, payload, headers,
              published_at)
          SELECT :first_version, topic, key, payload, headers, now()
          FROM calendar.outbox_messages WHERE message_id = :cancelled""",
    ),
    plant(
        "cancelled-message-tells-the-ending",
        "expired",
        CANCELLED,
        appointment("status = 'Declined'"),
    ),
    plant(
        "cancelled-message-tells-the-ending",
        "by_agent",
        CANCELLED,
        appointment("status = 'Declined', cancelled_by = NULL"),
    ),
    plant(
        "cancelled-message-tells-the-ending",
        "declined",
        CANCELLED,
        appointment("status = 'Confirmed'"),
        slot("status = 'Booked'"),
        also=("active-appointment-keeps-its-event",),
    ),
    plant("status-message-tells-the-status", "expired", CHANGED, event("status = 'Completed'")),
    plant(
        "message-names-its-appointment",
        "by_agent",
        CANCELLED,
        message("""payload = replace(payload::text, 'ByAgent', 'ByInvestor')::json"""),
    ),
    plant(
        "message-outlives-its-row",
        "declined",
        CANCELLED,
        "DELETE FROM calendar.appointments WHERE id = :a",
    ),
    plant(
        "message-outlives-its-row",
        "declined",
        CHANGED,
        "DELETE FROM calendar.calendar_events WHERE id = :e",
    ),
    *(
        plant(
            "message-names-its-appointment",
            "expired",
            which,
            said(field, '"00000000-0000-4000-8000-000000000000"', which),
        )
        for field in ("SlotId", "TenantId", "InvestorId", "AgentId")
        for which in (CANCELLED, CHANGED)
    ),
)

MASK_ALONE = "gggggggg-0000-4000-8000-000000000000"
DIGITS_ALONE = "0-0000-4000-8000-0000000000000000000"
CONTRACT = (
    plant("message-is-about-its-key", "expired", CANCELLED, message("key = :new_text")),
    plant("message-is-about-its-key", "expired", CHANGED, message("key = :a_text", CHANGED)),
    *(
        plant("message-fits-the-contract", "expired", CANCELLED, said(field, value), also=also)
        for field, value, also in (
            ("ContractVersion", "2", ()),
            ("ContractVersion", '"1"', ()),
            ("More", "1", ()),
            ("Reason", '"Bored"', ()),
            ("TenantId", '"nobody"', ("message-names-its-appointment",)),
            ("TenantId", f'"{MASK_ALONE}"', ("message-names-its-appointment",)),
            ("TenantId", f'"{DIGITS_ALONE}"', ("message-names-its-appointment",)),
            ("OccurredAt", '"2026-01-01Tab:00:00.000000Z"', ("message-follows-from-its-change",)),
            ("OccurredAt", '"2026-1-001T00:00:00.000000Z"', ("message-follows-from-its-change",)),
            ("OccurredAt", '"yesterday"', ("message-follows-from-its-change",)),
            ("CorrelationId", '""', ("message-carries-its-headers",)),
            ("CorrelationId", "7", ("message-carries-its-headers",)),
        )
    ),
    plant("message-fits-the-contract", "expired", CHANGED, said("Status", '"Moved"', CHANGED)),
    plant(
        "message-fits-the-contract",
        "expired",
        CANCELLED,
        message("payload = (payload::jsonb - 'OccurredAt')::json"),
        also=("message-follows-from-its-change",),
    ),
    *(
        plant(
            "message-fits-the-contract",
            "expired",
            CANCELLED,
            message(f"payload = '{payload}'"),
            also=("messages-come-in-pairs", "message-carries-its-headers"),
        )
        for payload in ("[]", "null", '{"AppointmentId": "\\\\u0000"}', '{"a": "\\\\ud800"}')
    ),
    plant("message-carries-its-headers", "expired", CANCELLED, message("headers = '{}'")),
    plant(
        "message-carries-its-headers",
        "expired",
        CANCELLED,
        message("""headers = headers || '{"correlation-id": "other"}'"""),
    ),
    plant(
        "message-carries-its-headers",
        "expired",
        CANCELLED,
        message("""headers = headers || '{"traceparent": "00-1-2-00"}'"""),
    ),
    plant("message-follows-from-its-change", "expired", NEW, message("message_id = :new")),
    plant(
        "message-follows-from-its-change",
        "expired",
        CHANGED,
        event("updated_at = updated_at - interval '1 us'"),
    ),
    plant(
        "message-follows-from-its-change",
        "late",
        CANCELLED,
        appointment("updated_at = updated_at + interval '1 us'"),
    ),
    plant(
        "message-follows-from-its-change",
        "expired",
        CHANGED,
        said("OccurredAt", '"2020-01-01T00:00:00.000000Z"', CHANGED),
    ),
)

OUTBOX = (
    plant(
        "published-in-order", "expired", NEW, TWO_OF_A_KEY.format("NULL", "now()"), also=(FOREIGN,)
    ),
    plant(
        "published-in-order",
        "expired",
        NEW,
        TWO_OF_A_KEY.format("now() + interval '11 s'", "now()"),
        also=(FOREIGN,),
    ),
    plant(
        "published-in-order",
        "expired",
        NEW,
        TWO_OF_A_KEY.format("NULL", "now()"),
        "UPDATE calendar.outbox_messages SET set_aside_at = now() WHERE published_at IS NULL",
        also=(FOREIGN, "nothing-set-aside"),
    ),
    plant(
        "one-state-per-message",
        "expired",
        CANCELLED,
        message("set_aside_at = now()"),
        found="published and set aside",
    ),
    plant(
        "one-state-per-message",
        "expired",
        CANCELLED,
        message("discarded_at = now()"),
        found="published and discarded",
    ),
    plant("topic-of-the-contract", "expired", NEW, new_message("pin.calendar.misspelt.v1")),
    plant(FOREIGN, "expired", "other", new_message("other")),
    plant(
        "nothing-set-aside",
        "expired",
        CANCELLED,
        message("published_at = NULL, set_aside_at = now(), attempts = 5, last_error = 'no'"),
    ),
    plant(
        "nothing-waits-long",
        "expired",
        CANCELLED,
        message("published_at = NULL, created_at = now() - interval '6 min'"),
    ),
    plant(
        "published-leave-in-time",
        "expired",
        CANCELLED,
        message("""published_at = now() - interval '8 days 1 h',
            created_at = now() - interval '9 days'"""),
    ),
)

JOBS = (
    *(
        plant(
            "run-has-its-figures",
            "pending",
            NEW_TEXT,
            RUN.format("now()", "now()", "'completed'", result),
        )
        for result in (f"{SUMS}::jsonb - 'SkippedLockedCount'", RESULT.format('"2"', 9))
    ),
    plant(
        "kept-failure-is-pending", "expired", APPOINTMENT, FAILURE.format("a", "now()", "now()", 1)
    ),
    plant("kept-failure-is-pending", "expired", NEW, FAILURE.format("new", "now()", "now()", 1)),
    plant("kept-failure-counts", "pending", APPOINTMENT, FAILURE.format("a", "now()", "now()", 0)),
    plant(
        "run-has-its-figures", "pending", NEW_TEXT, RUN.format("now()", "now()", "'completed'", OFF)
    ),
    plant(
        "run-has-its-figures",
        "pending",
        NEW_TEXT,
        RUN.format("now()", "now()", "'completed'", NEGATIVE),
    ),
    plant(
        "run-has-its-figures", "pending", NEW_TEXT, RUN.format("now()", "now()", "'failed'", "NULL")
    ),
    plant("run-has-its-figures", "pending", NEW_TEXT, RUN.format("now()", "now()", "NULL", SUMS)),
    plant(
        "run-has-its-figures", "pending", NEW_TEXT, RUN.format("now()", "NULL", "'completed'", SUMS)
    ),
    plant(
        "run-has-ended",
        "pending",
        NEW_TEXT,
        RUN.format("now() - interval '5 min'", "NULL", "NULL", "NULL"),
    ),
    plant(
        "expired-in-time",
        "pending",
        APPOINTMENT,
        appointment("""created_at = now() - interval '2 h',
            pending_expires_at = now() - interval '91 s'"""),
    ),
)

GUARDS = (
    plant(
        "guards-stand",
        "pending",
        "calendar.ix_appointments_pending_expires_at",
        """UPDATE pg_index SET indisvalid = false
        WHERE indexrelid = 'calendar.ix_appointments_pending_expires_at'::regclass""",
    ),
    plant(
        "guards-stand",
        "pending",
        "calendar.availability_slots.slot_ends_after_start",
        "ALTER TABLE calendar.availability_slots DROP CONSTRAINT slot_ends_after_start",
        """ALTER TABLE calendar.availability_slots ADD CONSTRAINT slot_ends_after_start
        CHECK (end_at >= start_at) NOT VALID""",
    ),
    plant(
        "guards-stand",
        "pending",
        "calendar.appointments.appointment_status_known",
        "ALTER TABLE calendar.appointments DROP CONSTRAINT appointment_status_known",
    ),
    plant(
        "guards-stand",
        "pending",
        "calendar.event_reminders.no_pending_reminder_on_cancelled_event",
        """ALTER TABLE calendar.event_reminders
          DISABLE TRIGGER no_pending_reminder_on_cancelled_event""",
    ),
    plant(
        "guards-stand",
        "pending",
        "calendar.ix_appointments_pending_expires_at",
        "DROP INDEX calendar.ix_appointments_pending_expires_at",
    ),
)

PLANTS = (*DEADLINES, *ROWS, *TOGETHER, *MESSAGES, *CONTRACT, *OUTBOX, *JOBS, *GUARDS)
