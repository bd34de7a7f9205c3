"""How our messages look: fields, key, headers and ids, as the contract has them (section 6, O6)."""

from sqlalchemy import Row

from app.domain.outbox import (
    APPOINTMENT_CANCELLED,
    CONTRACT_VERSION,
    EVENT_STATUS_CHANGED,
    Reason,
    message_id,
    timestamp,
)
from app.store.audit import Check
from app.store.audit_bookings import APPOINTMENTS, EVENTS
from app.store.audit_messages import FIELDS, IDENTIFIERS, MESSAGES, OUTBOX

_REASONS = ", ".join(f"'{reason}'" for reason in Reason)


def _no(field: str, mask: str, digits: str) -> str:
    """That a field has not this form, in a tenth of a regular expression's time.

    `_` in the mask stands for a digit, whatever else is in it for itself.
    """
    rest = mask.replace("_", "")
    fits = f"{field} LIKE '{mask}' AND translate({field}, '{digits}', '') = '{rest}'"
    return f"NOT coalesce({fits}, false)"


_HEX = "0123456789abcdef"
_UUID = "________-____-____-____-____________"
_TRACEPARENT = f"__-{'_' * 32}-{'_' * 16}-__"
_TIME = "____-__-__T__:__:__.______Z"
_NO_IDENTIFIER = " ".join(
    f"""WHEN {_no(f'lower("{field}")', _UUID, _HEX)} THEN '{field}'""" for field in IDENTIFIERS
)

WIRE_CHECKS = (
    Check(
        name="message-is-about-its-key",
        rule="§6",
        says="The key is the id of what the message is about",
        table=OUTBOX,
        sql=f"""
        SELECT message_id AS id, 'another key' AS found, CASE topic
            WHEN '{APPOINTMENT_CANCELLED}' THEN 'AppointmentId' ELSE 'CalendarEventId' END AS wanted
        FROM {MESSAGES} message WHERE key <> CASE topic
            WHEN '{APPOINTMENT_CANCELLED}' THEN "AppointmentId" ELSE "CalendarEventId" END
        """,
    ),
    Check(
        name="message-fits-the-contract",
        rule="§6",
        says="A document has exactly the contract's ten fields, each of its kind",
        table=OUTBOX,
        sql=f"""
        SELECT id, 'not as the contract has it: ' || broken AS found, 'contract v1' AS wanted
        FROM (SELECT message_id AS id, CASE
            WHEN document IS NULL THEN 'the document'
            WHEN (SELECT count(*) FROM jsonb_object_keys(document)) <> {len(FIELDS) - 1}
                THEN 'its number of fields'
            WHEN "ContractVersion" IS DISTINCT FROM '{CONTRACT_VERSION}'
                OR jsonb_typeof(document -> 'ContractVersion') <> 'number' THEN 'ContractVersion'
            {_NO_IDENTIFIER}
            WHEN topic = '{APPOINTMENT_CANCELLED}' AND coalesce("Reason" NOT IN ({_REASONS}), true)
                THEN 'Reason'
            WHEN topic = '{EVENT_STATUS_CHANGED}' AND "Status" IS DISTINCT FROM 'Cancelled'
                THEN 'Status'
            WHEN {_no('"OccurredAt"', _TIME, "0123456789")} THEN 'OccurredAt'
            WHEN coalesce("CorrelationId", '') = ''
                OR jsonb_typeof(document -> 'CorrelationId') <> 'string' THEN 'CorrelationId'
            END AS broken FROM {MESSAGES} message) judged
        WHERE broken IS NOT NULL
        """,
    ),
    Check(
        name="message-carries-its-headers",
        rule="O6",
        says="A message travels with its correlation id and a W3C traceparent",
        table=OUTBOX,
        sql=f"""
        SELECT id, 'not as the contract has it: header ' || broken AS found, 'contract v1' AS wanted
        FROM (SELECT message_id AS id, CASE
            WHEN headers ->> 'correlation-id' IS DISTINCT FROM "CorrelationId" THEN 'correlation-id'
            WHEN {_no("(headers ->> 'traceparent')", _TRACEPARENT, _HEX)} THEN 'traceparent'
            END AS broken FROM {MESSAGES} message) judged
        WHERE broken IS NOT NULL
        """,
    ),
)

_VERSIONS = 1000  # so many changes back a message may be about


def derived(row: Row[tuple[object, ...]]) -> tuple[str, str] | None:
    """Whether a message's id follows from its change, and its OccurredAt from the same one (O6)."""
    version = row.version
    for about in range(version, max(0, version - _VERSIONS), -1):
        if row.id == str(message_id(row.topic, row.aggregate_id, about)):
            if about == version and row.OccurredAt != timestamp(row.updated_at):
                return "OccurredAt of another moment", "that of its change"
            return None
    return "a message id of its own", "the id that follows from topic, aggregate and version"


DERIVED = Check(
    name="message-follows-from-its-change",
    rule="O6",
    says="A message's id and time are those of the change that it tells",
    table=OUTBOX,
    judge=derived,
    sql=f"""
    SELECT message_id::text AS id, topic, appointment_id AS aggregate_id, version, updated_at,
        "OccurredAt"
    FROM {MESSAGES} message JOIN {APPOINTMENTS} a ON a.id::text = appointment_id
    WHERE topic = '{APPOINTMENT_CANCELLED}'
    UNION ALL
    SELECT message_id::text, topic, event_id, version, updated_at, "OccurredAt"
    FROM {MESSAGES} message JOIN {EVENTS} e ON e.id::text = event_id
    WHERE topic = '{EVENT_STATUS_CHANGED}'
    """,
)

CHECKS = (*WIRE_CHECKS, DERIVED)
