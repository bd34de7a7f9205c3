"""The states of everything, judged by the specification's words in SQL of our own."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from dev.chaos import records
from dev.chaos.ledger import Act, Answer, Ledger
from dev.chaos.verdict import Finding, Kind, findings


@dataclass(frozen=True)
class Rule:
    """`sql` finds those that break it."""

    kind: Kind
    says: str
    sql: str


_ENDED = "status IN ('Expired', 'Declined', 'Cancelled')"
_CANCELLED = "pin.calendar.appointment-cancelled.v1"
_CHANGED = "pin.calendar.event-status-changed.v1"
_PAIRS = f"""
SELECT a.id, a.{_ENDED} AS ended,
    coalesce(c.said, 0) AS cancellations, coalesce(e.said, 0) AS changes
FROM calendar.appointments a
LEFT JOIN (SELECT topic, key, count(*) AS said FROM calendar.outbox_messages GROUP BY topic, key) c
    ON c.topic = '{_CANCELLED}' AND c.key = a.id::text
LEFT JOIN (SELECT topic, key, count(*) AS said FROM calendar.outbox_messages GROUP BY topic, key) e
    ON e.topic = '{_CHANGED}' AND e.key = a.calendar_event_id::text
"""

RULES = (
    Rule(
        Kind.DOUBLE,
        "an appointment moved more than once, or by half",
        """
        SELECT id FROM calendar.appointments
        WHERE version <> ALL (CASE status WHEN 'Pending' THEN '{1}'::int[]
            WHEN 'Cancelled' THEN '{2,3}' ELSE '{2}' END)
        """,
    ),
    Rule(
        Kind.DOUBLE,
        "an event's version does not count its changes",
        """
        SELECT id FROM calendar.calendar_events
        WHERE version <> CASE status WHEN 'Scheduled' THEN 1 WHEN 'Cancelled' THEN 2 END
        """,
    ),
    Rule(
        Kind.DOUBLE,
        "a slot's version does not count its bookings and releases",
        f"""
        SELECT s.id FROM calendar.availability_slots s
        LEFT JOIN calendar.appointments a ON a.slot_id = s.id
        GROUP BY s.id HAVING s.version <> 1 + count(a.id) + count(a.id) FILTER (WHERE a.{_ENDED})
        """,
    ),
    Rule(
        Kind.LOST,
        "an end without its pair of messages",
        f"SELECT id FROM ({_PAIRS}) p WHERE ended AND least(cancellations, changes) < 1",
    ),
    Rule(
        Kind.DOUBLE,
        "more messages than ends",
        f"SELECT id FROM ({_PAIRS}) p WHERE greatest(cancellations, changes) > ended::int",
    ),
    Rule(
        Kind.LOST,
        "a message set aside or given up",
        """
        SELECT message_id FROM calendar.outbox_messages
        WHERE set_aside_at IS NOT NULL AND published_at IS NULL OR discarded_at IS NOT NULL
        """,
    ),
    Rule(
        Kind.OTHER,
        "expired before its deadline, or without one",
        """
        SELECT id FROM calendar.appointments
        WHERE status = 'Expired' AND (updated_at > pending_expires_at) IS NOT TRUE
        """,
    ),
    Rule(
        Kind.OTHER,
        "CancelledBy does not tell who cancelled",
        """
        SELECT id FROM calendar.appointments
        WHERE CASE status
            WHEN 'Cancelled' THEN (cancelled_by IN (investor_id, agent_id)) IS NOT TRUE
            ELSE cancelled_by IS NOT NULL END
        """,
    ),
    Rule(
        Kind.OTHER,
        "the event does not follow its appointment",
        f"""
        SELECT a.id FROM calendar.appointments a
        JOIN calendar.calendar_events e ON e.id = a.calendar_event_id
        WHERE CASE WHEN a.{_ENDED} THEN e.status <> 'Cancelled' OR e.updated_at <> a.updated_at
            OR e.cancel_reason IS DISTINCT FROM CASE a.status
                WHEN 'Expired' THEN 'Запись не подтверждена агентом в срок'
                WHEN 'Declined' THEN 'Запись отклонена агентом'
                ELSE CASE a.cancelled_by WHEN a.agent_id THEN 'Запись отменена агентом'
                     ELSE 'Запись отменена инвестором' END END
            ELSE e.status <> 'Scheduled' OR e.cancel_reason IS NOT NULL END
        """,
    ),
    Rule(
        Kind.OTHER,
        "the reminders do not follow their event",
        """
        SELECT e.id FROM calendar.calendar_events e
        LEFT JOIN calendar.event_reminders r ON r.calendar_event_id = e.id
        GROUP BY e.id
        HAVING count(*) <> 2 OR count(*) FILTER (WHERE r.status = CASE e.status
            WHEN 'Cancelled' THEN 'Skipped' ELSE 'Pending' END) <> 2
        """,
    ),
    Rule(
        Kind.OTHER,
        "the slot does not follow its appointments",
        """
        SELECT s.id FROM calendar.availability_slots s
        JOIN LATERAL (SELECT * FROM calendar.appointments a WHERE a.slot_id = s.id
            ORDER BY a.status IN ('Pending', 'Confirmed') DESC, a.updated_at DESC LIMIT 1) a ON true
        WHERE s.status <> CASE WHEN a.status IN ('Pending', 'Confirmed') THEN 'Booked'
            WHEN a.updated_at <= s.start_at - make_interval(mins => s.min_lead_time_minutes)
            THEN 'Available' ELSE 'Expired' END
        """,
    ),
    Rule(
        Kind.OTHER,
        "two hold one slot",
        """
        SELECT slot_id FROM calendar.appointments WHERE status IN ('Pending', 'Confirmed')
        GROUP BY slot_id HAVING count(*) > 1
        """,
    ),
    Rule(
        Kind.OTHER,
        "a message does not say what happened",
        f"""
        SELECT m.message_id FROM calendar.outbox_messages m
        JOIN calendar.appointments a ON a.id = (m.payload ->> 'AppointmentId')::uuid
        WHERE (m.payload ->> 'SlotId')::uuid <> a.slot_id
           OR (m.payload ->> 'OccurredAt')::timestamptz <> a.updated_at
           OR CASE m.topic WHEN '{_CHANGED}' THEN m.payload ->> 'Status' <> 'Cancelled'
              ELSE m.payload ->> 'Reason' <> CASE a.status WHEN 'Cancelled' THEN
                  CASE a.cancelled_by WHEN a.agent_id THEN 'CancelledByAgent'
                  ELSE 'CancelledByInvestor' END ELSE a.status END END
        """,
    ),
    Rule(
        Kind.OTHER,
        "a failure is kept of an appointment that is no longer Pending",
        """
        SELECT f.appointment_id FROM calendar.expiry_failures f
        JOIN calendar.appointments a ON a.id = f.appointment_id WHERE a.status <> 'Pending'
        """,
    ),
)


def judge(connection: Connection, ledger: Ledger) -> list[Finding]:
    """Everything that is wrong at this moment; the ledger must be at rest."""
    found = [
        one
        for rule in RULES
        for one in findings(rule.kind, rule.says, _first(records.rows(connection, rule.sql)))
    ]
    return [*found, *_promises(connection, ledger)]


def _first(rows: Iterable[tuple[object, ...]]) -> list[object]:
    return [row[0] for row in rows]


def _promises(connection: Connection, ledger: Ledger) -> list[Finding]:
    """What users were told must be so."""
    statuses = dict(records.rows(connection, "SELECT id, status FROM calendar.appointments"))
    messages = _first(records.rows(connection, "SELECT message_id FROM calendar.outbox_messages"))
    broken = [
        (subject, tried, statuses[subject])
        for subject, tried in ledger.decisions().items()
        if subject in statuses and statuses[subject] not in allowed(tried)
    ]
    undone = [subject for subject, tried, status in broken if status in ("Pending", "Expired")]
    return [
        *findings(Kind.LOST, "a booking that was promised", ledger.booked() - statuses.keys()),
        *findings(Kind.LOST, "a message that was committed", ledger.noted() - set(messages)),
        *findings(Kind.LOST, "a decision that was promised", undone),
        *findings(
            Kind.DOUBLE,
            "a state that nobody was promised",
            [subject for subject, *_ in broken if subject not in undone],
        ),
        *findings(
            Kind.OTHER,
            "an answer that no user may get",
            [f"{entry.act} {entry.subject}: {entry.detail}" for entry in ledger.surprises()],
        ),
    ]


def allowed(tried: dict[Act, set[Answer]]) -> set[str]:
    """Where an appointment may stand after all that was tried on it, with these answers."""
    ends = {Act.CANCEL: "Cancelled", Act.DECLINE: "Declined"}
    for act, status in ends.items():
        if Answer.DONE in tried.get(act, ()):
            return {status}
    unsure = {status for act, status in ends.items() if Answer.UNKNOWN in tried.get(act, ())}
    confirms = tried.get(Act.CONFIRM, set())
    if Answer.DONE in confirms:
        return {"Confirmed", *(unsure & {"Cancelled"})}
    unsure |= {"Confirmed"} if Answer.UNKNOWN in confirms else set()
    return {"Pending", "Expired", *unsure}
