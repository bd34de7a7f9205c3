"""The jobs' own records, and the work that they have not done: failures, runs, what is overdue."""

from app.store.audit import Check, Severity, age
from app.store.audit_bookings import APPOINTMENTS, EVENTS, SLOTS

FAILURES = "calendar.expiry_failures"
RUNS = "calendar.job_runs"
FIGURES = (
    "ExpiredCount",
    "SlotsReleasedCount",
    "SlotsExpiredCount",
    "SkippedLockedCount",
    "DurationMs",
)
_COUNTED = " AND ".join(
    f"coalesce(jsonb_typeof(result -> '{n}') = 'number', false)" for n in FIGURES
)
_LAWFUL = " AND ".join(f"(result ->> '{name}')::numeric >= 0" for name in FIGURES)

RECORDS = (
    Check(
        name="kept-failure-is-pending",
        rule="C4",
        says="A kept failure is gone when its appointment leaves Pending",
        table=FAILURES,
        sql=f"""
        SELECT appointment_id AS id, 'a kept failure of '
            || coalesce('a ' || status || ' appointment', 'no appointment') AS found,
            'none' AS wanted
        FROM {FAILURES} LEFT JOIN {APPOINTMENTS} ON appointments.id = appointment_id
        WHERE status IS DISTINCT FROM 'Pending'
        """,
    ),
    Check(
        name="kept-failure-counts",
        rule="C4",
        says="A kept failure has been met at least once",
        table=FAILURES,
        sql=f"""SELECT appointment_id AS id, attempts || ' attempts' AS found, '1 or more' AS wanted
        FROM {FAILURES} WHERE attempts < 1""",
    ),
    Check(
        name="run-has-its-figures",
        rule="C6",
        says="A finished cycle has its outcome and five figures that add up",
        table=RUNS,
        sql=f"""
        SELECT run_id AS id, 'an outcome or figures that cannot be' AS found,
            'outcome, and ExpiredCount = SlotsReleasedCount + SlotsExpiredCount' AS wanted
        FROM {RUNS}
        WHERE (finished_at IS NULL) <> (outcome IS NULL)
           OR job = 'appointment_timeout' AND finished_at IS NOT NULL AND NOT CASE
                WHEN {_COUNTED}
                THEN {_LAWFUL} AND (result ->> 'ExpiredCount')::numeric
                    = (result ->> 'SlotsReleasedCount')::numeric
                    + (result ->> 'SlotsExpiredCount')::numeric
                ELSE false END
        """,
    ),
    Check(
        name="run-has-ended",
        rule="C6",
        says="A run that began ends; one that was killed has no end",
        table=RUNS,
        severity=Severity.WARNING,
        sql=f"""
        SELECT run_id AS id, job || ' without an end, begun '
            || {age("started_at")} || ' ago' AS found,
            'an end, or a worker that was not killed' AS wanted
        FROM {RUNS} WHERE finished_at IS NULL
          AND started_at < now() - make_interval(secs => :unfinished_seconds)
        """,
    ),
)

# Who holds a row that is changed or locked is in no view: its `xmax` is the holder's transaction.
SLO = Check(
    name="expired-in-time",
    rule="§9",
    says="An overdue appointment is expired within an interval and a cycle's duration",
    table=APPOINTMENTS,
    severity=Severity.WARNING,
    sql=f"""
    WITH holder AS MATERIALIZED (
        SELECT transactionid, pid FROM pg_locks
        WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
    ), success AS MATERIALIZED (
        SELECT max(as_of) AS as_of FROM {RUNS}
        WHERE job = 'appointment_timeout' AND outcome IN ('completed', 'cut_short')
    )
    SELECT appointment.id, 'overdue for '
        || {age("pending_expires_at")} || ': ' || CASE
        WHEN failure.appointment_id IS NOT NULL
            THEN 'poison, ' || attempts || ' times: ' || rule
        WHEN EXISTS (SELECT FROM calendar.brake WHERE released_at IS NULL) THEN 'the brake is on'
        WHEN holder.pid IS NOT NULL THEN 'held by backend ' || holder.pid
        WHEN coalesce((SELECT as_of FROM success) <= pending_expires_at, true)
            THEN 'no cycle has succeeded since'
        ELSE 'more are due than the cycles since could take' END AS found,
        'Expired, see `python -m app why`' AS wanted
    FROM {APPOINTMENTS} appointment
    LEFT JOIN {FAILURES} failure ON failure.appointment_id = appointment.id
    LEFT JOIN {SLOTS} slot ON slot.id = slot_id
    LEFT JOIN {EVENTS} event ON event.id = calendar_event_id
    LEFT JOIN LATERAL (SELECT min(pid) AS pid FROM holder
        WHERE transactionid IN (appointment.xmax, slot.xmax, event.xmax)) holder ON true
    WHERE appointment.status = 'Pending'
      AND pending_expires_at < now() - make_interval(secs => :slo_seconds)
    """,
)

CHECKS = (*RECORDS, SLO)
