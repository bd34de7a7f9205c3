"""The outbox as a queue: order within a key, states that exclude each other, what lies too long."""

from app.store.audit import Check, Severity, age
from app.store.audit_messages import OURS, OUTBOX

# The rows of one batch are marked by one statement, in any order within its own time limit (10 s):
# `xmin` tells that it was one.
ORDER = Check(
    name="published-in-order",
    rule="O3",
    says="A message is published after every earlier one of its topic and key",
    table=OUTBOX,
    sql=f"""
    SELECT message_id AS id, 'published before an earlier message of its key' AS found,
        'after it' AS wanted
    FROM (
        SELECT message_id, published_at, xmin::text AS writer,
            lag(id) OVER line AS earlier, lag(published_at) OVER line AS before,
            lag(xmin::text) OVER line AS earlier_writer
        FROM {OUTBOX} WHERE discarded_at IS NULL
        WINDOW line AS (PARTITION BY topic, key ORDER BY id)
    ) message
    WHERE earlier IS NOT NULL AND published_at IS NOT NULL AND (before IS NULL
        OR before > published_at
           + CASE WHEN writer = earlier_writer THEN interval '10 s' ELSE interval '0' END)
    """,
)

STATES = (
    Check(
        name="one-state-per-message",
        rule="O4",
        says="A message is waiting, set aside, published or discarded: one of them",
        table=OUTBOX,
        sql=f"""
        SELECT message_id AS id, 'published and ' || CASE WHEN discarded_at IS NULL
            THEN 'set aside' ELSE 'discarded' END AS found, 'one state' AS wanted
        FROM {OUTBOX}
        WHERE published_at IS NOT NULL AND (discarded_at IS NOT NULL OR set_aside_at IS NOT NULL)
        """,
    ),
    Check(
        name="topic-of-the-contract",
        rule="§6",
        says="Of the calendar's own topics there are two",
        table=OUTBOX,
        sql=f"""
        SELECT message_id AS id, 'topic ' || topic AS found, 'one of the contract' AS wanted
        FROM {OUTBOX} WHERE topic LIKE 'pin.calendar.%' AND topic NOT IN {OURS}
        """,
    ),
)

WARNINGS = (
    Check(
        name="topic-of-somebody-else",
        rule="§6",
        says="Topics that are not the calendar's are none that the audit knows",
        table=OUTBOX,
        severity=Severity.WARNING,
        sql=f"""
        SELECT topic AS id, count(*) || ' messages' AS found, 'a topic of the contract' AS wanted
        FROM {OUTBOX} WHERE topic NOT LIKE 'pin.calendar.%' GROUP BY topic
        """,
    ),
    Check(
        name="nothing-set-aside",
        rule="O4",
        says="No message waits for a person: see `python -m app outbox list`",
        table=OUTBOX,
        severity=Severity.WARNING,
        sql=f"""
        SELECT message_id AS id, 'set aside after ' || attempts || ' tries' AS found,
            'requeued or discarded' AS wanted
        FROM {OUTBOX}
        WHERE set_aside_at IS NOT NULL AND published_at IS NULL AND discarded_at IS NULL
        """,
    ),
    Check(
        name="nothing-waits-long",
        rule="O1",
        says="Messages are out within minutes of their commit",
        table=OUTBOX,
        severity=Severity.WARNING,
        sql=f"""
        SELECT (array_agg(message_id ORDER BY id))[1] AS id,
            count(*) || ' messages unsent, the oldest for ' || {age("min(created_at)")} AS found,
            'sent by a publisher that runs and reaches Kafka' AS wanted
        FROM {OUTBOX}
        WHERE published_at IS NULL AND discarded_at IS NULL AND set_aside_at IS NULL
          AND created_at < now() - interval '5 minutes'
        HAVING count(*) > 0
        """,
    ),
    Check(
        name="published-leave-in-time",
        rule="O5",
        says="Published messages leave soon after OUTBOX_RETENTION_DAYS",
        table=OUTBOX,
        severity=Severity.WARNING,
        sql=f"""
        SELECT (array_agg(message_id ORDER BY published_at))[1] AS id,
            count(*) || ' published messages past retention' AS found,
            'removed by calendar.retention' AS wanted
        FROM {OUTBOX}
        WHERE published_at < now() - make_interval(secs => 86400 * :retention_days)
            - interval '1 day'
        HAVING count(*) > 0
        """,
    ),
)

CHECKS = (ORDER, *STATES, *WARNINGS)
