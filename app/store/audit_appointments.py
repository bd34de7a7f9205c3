"""What a row alone can get wrong: deadlines, who cancelled, versions, points in time."""

from collections.abc import Iterator

from app.store.audit import Check, Severity
from app.store.audit_bookings import APPOINTMENTS, EVENTS, HOLDING, SLOTS

# Of Pending ones: a deadline governs nothing afterwards, and its slot may have moved since.
DEADLINES = (
    Check(
        name="deadline-within-bounds",
        rule="D1",
        says="A deadline lies after the booking, within 24 h, and before the lead time begins",
        table=APPOINTMENTS,
        sql=f"""
        SELECT * FROM (
            SELECT appointment.id, CASE
                WHEN pending_expires_at <= created_at THEN 'a deadline not after CreatedAt'
                WHEN pending_expires_at > created_at + interval '24 h'
                    THEN 'a deadline later than CreatedAt + 24 h'
                WHEN pending_expires_at + make_interval(mins => min_lead_time_minutes::integer)
                    > start_at
                    THEN 'a deadline later than StartAt - MinLeadTimeMinutes'
                END AS found, 'the earlier of the two, after CreatedAt' AS wanted
            FROM {APPOINTMENTS} appointment LEFT JOIN {SLOTS} slot ON slot.id = slot_id
            WHERE appointment.status = 'Pending' AND pending_expires_at IS NOT NULL
        ) judged WHERE found IS NOT NULL
        """,
    ),
    Check(
        name="deadline-unless-auto-confirmed",
        rule="D1",
        says="An undecided appointment has a deadline, an auto-confirmed one has none",
        table=APPOINTMENTS,
        sql=f"""
        SELECT appointment.id,
            CASE WHEN auto_confirm THEN 'a deadline on auto-confirm'
                 ELSE 'Pending without a deadline' END AS found,
            CASE WHEN auto_confirm THEN 'none' ELSE 'a deadline' END AS wanted
        FROM {APPOINTMENTS} appointment JOIN {SLOTS} slot ON slot.id = slot_id
        WHERE auto_confirm AND appointment.status IN {HOLDING} AND pending_expires_at IS NOT NULL
           OR NOT auto_confirm AND appointment.status = 'Pending' AND pending_expires_at IS NULL
        """,
    ),
    Check(
        name="auto-confirmed-is-confirmed",
        rule="D1",
        says="A booking on auto-confirm is Confirmed at once; Pending it would never end",
        table=APPOINTMENTS,
        severity=Severity.WARNING,
        sql=f"""
        SELECT appointment.id, 'Pending on auto-confirm' AS found, 'Confirmed' AS wanted
        FROM {APPOINTMENTS} appointment JOIN {SLOTS} slot ON slot.id = slot_id
        WHERE auto_confirm AND appointment.status = 'Pending' AND pending_expires_at IS NULL
        """,
    ),
    Check(
        name="expired-after-its-deadline",
        rule="C1",
        says="Nothing expires before its deadline, or without one",
        table=APPOINTMENTS,
        sql=f"""
        SELECT id, CASE WHEN pending_expires_at IS NULL THEN 'Expired without a deadline'
                        ELSE 'Expired not after its deadline' END AS found, 'overdue' AS wanted
        FROM {APPOINTMENTS} WHERE status = 'Expired'
          AND (pending_expires_at IS NULL OR updated_at <= pending_expires_at)
        """,
    ),
)

CANCELLED_BY = (
    Check(
        name="cancelled-by-someone",
        rule="§2",
        says="CancelledBy is set when someone cancelled, and only then",
        table=APPOINTMENTS,
        sql=f"""
        SELECT id, status || CASE WHEN cancelled_by IS NULL THEN ' without CancelledBy'
                                  ELSE ' with CancelledBy' END AS found,
            CASE WHEN cancelled_by IS NULL THEN 'who cancelled' ELSE 'nobody' END AS wanted
        FROM {APPOINTMENTS} WHERE status = 'Cancelled' AND cancelled_by IS NULL
           OR status IN ('Pending', 'Confirmed', 'Declined', 'Expired')
              AND cancelled_by IS NOT NULL
        """,
    ),
    Check(
        name="cancelled-by-a-party",
        rule="§5",
        says="Its investor or its agent cancels an appointment",
        table=APPOINTMENTS,
        severity=Severity.WARNING,
        sql=f"""
        SELECT id, 'Cancelled by somebody else' AS found, 'its investor or agent' AS wanted
        FROM {APPOINTMENTS}
        WHERE status = 'Cancelled' AND cancelled_by NOT IN (investor_id, agent_id)
        """,
    ),
)


def _versions() -> Iterator[Check]:
    for table in (APPOINTMENTS, SLOTS, EVENTS):
        yield Check(
            name=f"version-of-{_short(table)}",
            rule="C3.5",
            says="Versions count from 1",
            table=table,
            sql=f"""SELECT id, 'version ' || version AS found, '1 or more' AS wanted
            FROM {table} WHERE version < 1""",
        )


TIMES = {
    APPOINTMENTS: ("id", "created_at", "updated_at"),
    SLOTS: ("id", "updated_at"),
    EVENTS: ("id", "updated_at"),
    "calendar.event_reminders": ("id", "updated_at"),
    "calendar.outbox_messages": ("message_id", "created_at", "published_at", "set_aside_at"),
    "calendar.expiry_failures": ("appointment_id", "first_failed_at", "last_failed_at"),
    "calendar.job_runs": ("run_id", "started_at", "finished_at"),
}
"""What has happened, by the database's clock: the one clock of all (section 4)."""


# Judged by the time of the look, not of the snapshot: nothing committed meanwhile seems to come
# from the future. A minute is allowed to callers who bring their own clock.
def _future() -> Iterator[Check]:
    for table, (key, *columns) in TIMES.items():
        later = " OR ".join(f"{c} > clock_timestamp() + interval '1 minute'" for c in columns)
        yield Check(
            name=f"past-of-{_short(table)}",
            rule="D2",
            says="What has happened lies not in the future of the database's clock",
            table=table,
            sql=f"""SELECT {key} AS id, 'a time in the future' AS found, 'the past' AS wanted
            FROM {table} WHERE {later}""",
        )


def _ordered(table: str, key: str, earlier: str, later: str) -> Check:
    return Check(
        name=f"times-of-{_short(table)}",
        rule="D2",
        says=f"{earlier} is not after {later}",
        table=table,
        sql=f"""SELECT {key} AS id, '{later} before {earlier}' AS found,
            'not before it' AS wanted FROM {table} WHERE {later} < {earlier}""",
    )


def _short(table: str) -> str:
    return table.removeprefix("calendar.").replace("_", "-")


CHECKS = (
    *DEADLINES,
    *CANCELLED_BY,
    *_versions(),
    _ordered(APPOINTMENTS, "id", "created_at", "updated_at"),
    _ordered("calendar.outbox_messages", "message_id", "created_at", "published_at"),
    _ordered("calendar.expiry_failures", "appointment_id", "first_failed_at", "last_failed_at"),
    _ordered("calendar.job_runs", "run_id", "started_at", "finished_at"),
    *_future(),
)
