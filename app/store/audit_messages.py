"""What our messages say, against the rows that they speak of (sections 5 and 6).

A message about a row that is gone is no violation: rows may be deleted, what was said stays said.
"""

from app.domain.outbox import APPOINTMENT_CANCELLED, EVENT_STATUS_CHANGED, TOPICS
from app.store.audit import Check, Severity
from app.store.audit_bookings import APPOINTMENTS, ENDED, EVENTS

OUTBOX = "calendar.outbox_messages"
OURS = "(" + ", ".join(f"'{topic}'" for topic in TOPICS) + ")"
WITHIN_RETENTION = "now() - make_interval(secs => 86400 * :retention_days) + interval '1 hour'"
"""Published messages leave after `OUTBOX_RETENTION_DAYS`; what is younger than this must be there.

Only what has been published leaves, and nothing is published before it is written. The hour is for
callers whose own clock dates a change.
"""

IDENTIFIERS = ("AppointmentId", "SlotId", "CalendarEventId", "TenantId", "InvestorId", "AgentId")
FIELDS = ("ContractVersion", *IDENTIFIERS, "Reason", "Status", "OccurredAt", "CorrelationId")
_SAID = ", ".join(f"document ->> '{field}' AS \"{field}\"" for field in FIELDS)

# Escapes that PostgreSQL's text cannot hold would end a whole check: such a document counts as
# none, like one that is no object, and the contract's check tells it. OFFSET 0 keeps the document
# from being read anew for every field.
MESSAGES = f"""(
    SELECT id, message_id, topic, key, headers, created_at, document,
        lower(document ->> 'AppointmentId') AS appointment_id,
        lower(document ->> 'CalendarEventId') AS event_id,
        {_SAID}
    FROM (
        SELECT *, CASE WHEN json_typeof(payload) = 'object' AND (strpos(payload::text, '\\u') = 0
            OR payload::text !~* '\\\\u(0000|d[89a-f])') THEN CAST(payload AS jsonb)
            END AS document
        FROM {OUTBOX} WHERE topic IN {OURS} OFFSET 0
    ) read
)"""
"""Our messages with their fields read."""

PAIR_CHECKS = (
    Check(
        name="expired-has-its-pair",
        rule="C3.6",
        says="An Expired appointment has its pair of messages, within the outbox's retention",
        table=APPOINTMENTS,
        sql=f"""
        SELECT appointment.id, 'Expired without any message' AS found, 'its pair' AS wanted
        FROM {APPOINTMENTS} appointment
        WHERE status = 'Expired' AND updated_at > {WITHIN_RETENTION} AND NOT EXISTS (
            SELECT FROM {MESSAGES} message WHERE appointment_id = appointment.id::text)
        """,
    ),
    # The rivals are assumed: an adopter's own may tell the world by other ways.
    Check(
        name="ended-has-its-pair",
        rule="§5",
        says="A Declined or Cancelled appointment has its pair of messages as well",
        table=APPOINTMENTS,
        severity=Severity.WARNING,
        sql=f"""
        SELECT appointment.id, status || ' without any message' AS found, 'its pair' AS wanted
        FROM {APPOINTMENTS} appointment
        WHERE status IN ('Declined', 'Cancelled') AND updated_at > {WITHIN_RETENTION}
          AND NOT EXISTS (
            SELECT FROM {MESSAGES} message WHERE appointment_id = appointment.id::text)
        """,
    ),
    Check(
        name="messages-come-in-pairs",
        rule="C3.6",
        says="A message has its other half, within the outbox's retention",
        table=OUTBOX,
        sql=f"""
        SELECT message_id AS id, 'one half of a pair' AS found, 'the other on '
            || CASE topic WHEN '{APPOINTMENT_CANCELLED}' THEN '{EVENT_STATUS_CHANGED}'
               ELSE '{APPOINTMENT_CANCELLED}' END AS wanted
        FROM {MESSAGES} message
        WHERE created_at > {WITHIN_RETENTION} AND NOT EXISTS (
            SELECT FROM {MESSAGES} other WHERE other.topic <> message.topic
                AND other.appointment_id = message.appointment_id
                AND other.event_id = message.event_id)
        """,
    ),
    Check(
        name="one-message-per-ending",
        rule="R5",
        says="What ends, ends once: no second message on the same topic and key",
        table=OUTBOX,
        sql=f"""
        SELECT (array_agg(message_id ORDER BY id DESC))[1] AS id,
            count(*) || ' messages of one key on ' || topic AS found, 'one' AS wanted
        FROM {OUTBOX} WHERE topic IN {OURS} GROUP BY topic, key HAVING count(*) > 1
        """,
    ),
)

TRUTH_CHECKS = (
    Check(
        name="cancelled-message-tells-the-ending",
        rule="R1",
        says="A message's Reason is how its appointment ended",
        table=OUTBOX,
        sql=f"""
        SELECT * FROM (
            SELECT message.message_id AS id, status::text AS found, CASE
                WHEN "Reason" IN ('Expired', 'Declined') THEN "Reason"
                WHEN "Reason" IN ('CancelledByInvestor', 'CancelledByAgent') THEN 'Cancelled'
                END AS wanted
            FROM {MESSAGES} message JOIN {APPOINTMENTS} a ON a.id::text = appointment_id
            WHERE topic = '{APPOINTMENT_CANCELLED}'
              AND (status IN {ENDED} OR status IN ('Pending', 'Confirmed'))
        ) told WHERE found <> wanted
        """,
    ),
    Check(
        name="status-message-tells-the-status",
        rule="R1",
        says="An event of which Cancelled was told is Cancelled",
        table=OUTBOX,
        sql=f"""
        SELECT message_id AS id, status AS found, 'Cancelled' AS wanted
        FROM {MESSAGES} message JOIN {EVENTS} event ON event.id::text = event_id
        WHERE topic = '{EVENT_STATUS_CHANGED}' AND "Status" = 'Cancelled'
          AND status IN ('Scheduled', 'Completed')
        """,
    ),
    Check(
        name="message-names-its-appointment",
        rule="§6",
        says="The identifiers in a message are those of the appointment's row",
        table=OUTBOX,
        sql=f"""
        SELECT * FROM (
            SELECT message.message_id AS id, 'another ' || CASE
                WHEN lower("SlotId") <> slot_id::text THEN 'SlotId'
                WHEN lower("CalendarEventId") <> calendar_event_id::text THEN 'CalendarEventId'
                WHEN lower("TenantId") <> tenant_id::text THEN 'TenantId'
                WHEN lower("InvestorId") <> investor_id::text THEN 'InvestorId'
                WHEN lower("AgentId") <> agent_id::text THEN 'AgentId'
                WHEN cancelled_by <> CASE "Reason" WHEN 'CancelledByInvestor' THEN investor_id
                    WHEN 'CancelledByAgent' THEN agent_id END THEN 'one who cancelled'
                END AS found, 'the row''s' AS wanted
            FROM {MESSAGES} message JOIN {APPOINTMENTS} a ON a.id::text = appointment_id
        ) told WHERE found IS NOT NULL
        """,
    ),
    Check(
        name="message-outlives-its-row",
        rule="§6",
        says="What a message is about is there, unless somebody deleted it",
        table=OUTBOX,
        severity=Severity.WARNING,
        sql=f"""
        SELECT message_id AS id, 'its row is gone' AS found, 'a row with its key' AS wanted
        FROM {MESSAGES} message LEFT JOIN (
            SELECT id::text AS row_id FROM {APPOINTMENTS} UNION ALL SELECT id::text FROM {EVENTS}
        ) subject ON row_id = CASE topic
            WHEN '{APPOINTMENT_CANCELLED}' THEN appointment_id ELSE event_id END
        WHERE row_id IS NULL AND appointment_id IS NOT NULL AND event_id IS NOT NULL
        """,
    ),
)

CHECKS = (*PAIR_CHECKS, *TRUTH_CHECKS)
