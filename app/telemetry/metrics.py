"""What a worker node counts (section 8), told by the facts; imported before its pool forks.

Imported where a worker starts and nowhere else: a beat or a `celery call` has nothing to count.
"""

from functools import singledispatch

from prometheus_client import CollectorRegistry, Counter, Histogram, multiprocess, start_http_server

from app import facts
from app.settings import TelemetrySettings
from app.store.runs import Job, Outcome
from app.telemetry.database_state import DatabaseState
from app.telemetry.shared_values import shared_values

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45)
_LATE_SECONDS = (1, 5, 15, 30, 60, 65, 75, 90, 120, 300, 900, 3600, 6 * 3600, 24 * 3600)

registry = CollectorRegistry()
"""Our own: whatever else the process counts is not ours to serve."""

with shared_values(wanted=TelemetrySettings.load().metrics_port is not None) as directory:
    CYCLE_SECONDS = Histogram(
        "calendar_appointment_timeout_cycle_duration_seconds",
        "How long a cycle took",
        buckets=_SECONDS,
        registry=registry,
    )
    CYCLES = Counter(
        "calendar_appointment_timeout_cycles",
        "Ticks by their outcome; cut_short: by the time budget; stopped: by a stopping worker or"
        " the brake; skipped: the previous cycle was at work on this instance, or the brake is on",
        ["outcome"],
        registry=registry,
    )
    ITEMS = Counter(
        "calendar_appointment_timeout_items",
        "Expired appointments by what became of their slot",
        ["slot_outcome"],
        registry=registry,
    )
    LATE_SECONDS = Histogram(
        "calendar_appointment_timeout_lag_seconds",
        "How long after its PendingExpiresAt an appointment's expiry was committed",
        buckets=_LATE_SECONDS,
        registry=registry,
    )
    SKIP_LOCKED = Counter(
        "calendar_appointment_timeout_skip_locked",
        "Appointments passed over because another transaction held them",
        registry=registry,
    )
    ERRORS = Counter(
        "calendar_appointment_timeout_errors",
        "Failed items and failed cycles",
        registry=registry,
    )
    DRAIN_SECONDS = Histogram(
        "calendar_outbox_drain_duration_seconds",
        "How long a drain of the outbox took",
        buckets=_SECONDS,
        registry=registry,
    )
    DRAINS = Counter(
        "calendar_outbox_drains",
        "Drains by their outcome; skipped: another one was at work on this instance",
        ["outcome"],
        registry=registry,
    )
    PUBLISHED = Counter(
        "calendar_outbox_published", "Messages acknowledged by Kafka", registry=registry
    )
    ACKNOWLEDGED_SECONDS = Histogram(
        "calendar_outbox_acknowledgement_seconds",
        "From a message's transaction until Kafka's acknowledgement was noted",
        buckets=(*_SECONDS, 300, 3600),
        registry=registry,
    )
    REFUSED = Counter(
        "calendar_outbox_refused",
        "Refusals of a message for its own sake",
        registry=registry,
    )
    for _outcome in Outcome:  # every series exists as 0 from the start
        CYCLES.labels(outcome=_outcome)
        DRAINS.labels(outcome=_outcome)
    for _slot_outcome in ("released", "expired"):
        ITEMS.labels(slot_outcome=_slot_outcome)


@singledispatch
def listener(_fact: facts.Fact) -> None:
    """Count a fact; not every fact has a figure."""


@listener.register
def _(fact: facts.AppointmentExpired) -> None:
    ITEMS.labels(slot_outcome=fact.slot_outcome).inc()
    LATE_SECONDS.observe(fact.late_seconds)


@listener.register
def _(_fact: facts.ItemFailed) -> None:
    ERRORS.inc()


@listener.register
def _(fact: facts.CycleEnded) -> None:
    CYCLES.labels(outcome=fact.outcome).inc()
    CYCLE_SECONDS.observe(fact.result["DurationMs"] / 1000)
    SKIP_LOCKED.inc(fact.result["SkippedLockedCount"])
    if fact.outcome == Outcome.FAILED:
        ERRORS.inc()


@listener.register
def _(fact: facts.DrainEnded) -> None:
    DRAINS.labels(outcome=fact.outcome).inc()
    DRAIN_SECONDS.observe(fact.result["DurationMs"] / 1000)


@listener.register
def _(fact: facts.MessagesPublished) -> None:
    PUBLISHED.inc(len(fact.seconds))
    for seconds in fact.seconds:
        ACKNOWLEDGED_SECONDS.observe(seconds)


@listener.register
def _(_fact: facts.MessageRefused) -> None:
    REFUSED.inc()


@listener.register
def _(fact: facts.TickSkipped) -> None:
    skipped = {Job.APPOINTMENT_TIMEOUT: CYCLES, Job.OUTBOX_PUBLISHER: DRAINS}.get(fact.job)
    if skipped:
        skipped.labels(outcome=Outcome.SKIPPED).inc()


def serve(host: str, port: int) -> None:
    """Serve the node's sum and the database's state; OSError when the port is taken."""
    served = CollectorRegistry()
    multiprocess.MultiProcessCollector(served, path=str(directory))  # type: ignore[no-untyped-call]
    served.register(DatabaseState())
    start_http_server(port, addr=host, registry=served)
