"""Whether the work goes on: only where to look, since `status` tells the rest."""

from collections.abc import Iterator

from app.doctor.complaint import Complaint
from app.doctor.postgres import looking
from app.settings import AppointmentTimeoutSettings
from app.store import brake, runs, status
from app.store.runs import MISSED_TICKS, Job

EXPIRY_RUNBOOK = "ops/runbooks/appointment-timeout.md"
OUTBOX_RUNBOOK = "ops/runbooks/outbox-backlog.md"
WAITING_SECONDS = 300
"""A message that has waited so long does so for a reason."""


def complaints() -> Iterator[Complaint]:
    """What stands still, as warnings."""
    interval = AppointmentTimeoutSettings.load_or_default().appointment_timeout_interval_seconds
    with looking() as connection:
        since = runs.seconds_since_last(connection, Job.APPOINTMENT_TIMEOUT)
        pulled = brake.current(connection)
        found = status.read(connection)
    if since is None or since > MISSED_TICKS * interval:
        ended = "has ever ended here" if since is None else f"has ended for {since:.0f} s"
        yield _warning(
            f"No cycle {ended}.", f"See that a beat and a worker run, and {EXPIRY_RUNBOOK}."
        )
    if pulled:
        yield _warning(
            f"No appointment expires: {pulled.sentence}.",
            "`python -m app resume`, when it is meant to go on.",
        )
    if found.poison:
        yield _warning(
            f"{found.poison} appointments cannot expire.",
            f"`python -m app status` names them and their reasons; see {EXPIRY_RUNBOOK}.",
        )
    if found.set_aside:
        yield _warning(
            f"{found.set_aside} messages are set aside, since Kafka refuses them.",
            f"`python -m app outbox list` names them; see {OUTBOX_RUNBOOK}.",
        )
    if found.oldest_unsent_seconds and found.oldest_unsent_seconds > WAITING_SECONDS:
        yield _warning(
            f"A message has waited for Kafka for {found.oldest_unsent_seconds:.0f} s.",
            f"`python -m app status` tells how many wait; see {OUTBOX_RUNBOOK}.",
        )


def _warning(found: str, remedy: str) -> Complaint:
    return Complaint(found, remedy, serious=False)
