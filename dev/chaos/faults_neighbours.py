"""Others on the same PostgreSQL hold what the product needs."""

from dev.chaos import records
from dev.chaos.fault import fault
from dev.chaos.stage import Stage

_NEXT = """
SELECT a.id FROM calendar.appointments a
JOIN calendar.availability_slots s ON s.id = a.slot_id
WHERE a.status = 'Pending' AND a.pending_expires_at > now()
ORDER BY a.pending_expires_at LIMIT 1
"""


def _hold(stage: Stage, sql: str) -> None:
    with stage.judges.connect() as neighbour:
        if not records.rows(neighbour, sql):
            raise LookupError("the load has left nothing to hold")
        stage.pace.hold(full=90, short=6)


@fault(
    "appointment-held",
    does="a neighbour locks the appointment that is due next, and stays idle in its transaction",
    undone="its transaction ends",
)
def appointment_held(stage: Stage) -> None:
    """The rest must go on; the held one is taken later."""
    _hold(stage, f"{_NEXT} FOR UPDATE OF a")


@fault(
    "slot-locked",
    does="a neighbour locks the slot of the appointment that is due next, and nothing else",
    undone="its transaction ends",
)
def slot_locked(stage: Stage) -> None:
    """The same, by a part of it."""
    _hold(stage, f"{_NEXT} FOR UPDATE OF s")


@fault(
    "old-snapshot",
    does="a neighbour keeps a snapshot open, so that nothing can be vacuumed",
    undone="its transaction ends",
)
def old_snapshot(stage: Stage) -> None:
    """Dead rows pile up where the product looks first."""
    with records.snapshot(stage.judges) as neighbour:
        records.rows(neighbour, "SELECT count(*) FROM calendar.outbox_messages")
        stage.pace.hold(full=180, short=6)
