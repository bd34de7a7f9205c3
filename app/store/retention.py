"""What retention removes. An array around the choice: a join could take more than the batch."""

from sqlalchemy import Connection, text


def remove_published(connection: Connection, days: float, batch: int) -> int:
    """Messages acknowledged, or discarded by a person, longer ago than that."""
    return sum(
        connection.execute(statement, {"days": days, "batch": batch}).rowcount
        for statement in (_PUBLISHED, _DISCARDED)
    )


def remove_runs(connection: Connection, days: float, batch: int) -> int:
    """Records of runs that began longer ago than that, but for each job's last success."""
    return connection.execute(_RUNS, {"days": days, "batch": batch}).rowcount


_BEFORE = "now() - make_interval(secs => 86400 * :days)"
_PUBLISHED = text(
    f"""
    DELETE FROM calendar.outbox_messages WHERE id = ANY (ARRAY(
        SELECT id FROM calendar.outbox_messages WHERE published_at < {_BEFORE}
        ORDER BY published_at LIMIT :batch FOR UPDATE SKIP LOCKED))
    """
)
_DISCARDED = text(
    f"""
    DELETE FROM calendar.outbox_messages WHERE id = ANY (ARRAY(
        SELECT id FROM calendar.outbox_messages WHERE discarded_at < {_BEFORE}
        ORDER BY discarded_at LIMIT :batch FOR UPDATE SKIP LOCKED))
    """
)
_RUNS = text(
    f"""
    DELETE FROM calendar.job_runs WHERE run_id = ANY (ARRAY(
        SELECT run_id FROM calendar.job_runs run WHERE started_at < {_BEFORE}
          AND (outcome IS NULL OR outcome NOT IN ('completed', 'cut_short') OR EXISTS (
            SELECT FROM calendar.job_runs later
            WHERE later.job = run.job AND later.started_at > run.started_at
              AND later.outcome IN ('completed', 'cut_short')))
        ORDER BY started_at LIMIT :batch FOR UPDATE SKIP LOCKED))
    """
)
