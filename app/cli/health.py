"""`health`: by effect, for containers and probes; exit code 0 or 1 and one sentence."""

import sys

from app.cli.desk import connected, console
from app.settings import AppointmentTimeoutSettings
from app.store import runs
from app.store.runs import MISSED_TICKS, Job


def health(*, live: bool) -> None:
    """Whether the work can be done (--ready), or is being done (--live)."""
    with connected() as connection:
        since = runs.seconds_since_last(connection, Job.APPOINTMENT_TIMEOUT) if live else 0.0
    interval = AppointmentTimeoutSettings.load().appointment_timeout_interval_seconds
    if since is None:
        sys.exit("No cycle has ever ended here: see that a beat and a worker run.")
    if since > MISSED_TICKS * interval:
        sys.exit(f"No cycle has ended for {since:.0f} s: see that a beat and a worker run.")
    console.print("Cycles are being done." if live else "Ready.")
