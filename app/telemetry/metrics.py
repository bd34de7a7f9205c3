"""Prometheus metrics of a worker node, right in prefork with recycled children, threads and solo.

Every process of the node writes its own files into one directory; the main process serves the sum.
The directory must be in the environment before `prometheus_client` is imported, and Flower's plugin
imports it before any of our code: hence the look at what it has chosen. Imported where a worker
starts and nowhere else: a beat or a `celery call` has nothing to count.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"


PREFIX = "calendar-metrics-"


def _own_directory() -> Path:
    """A fresh one per node, named after its main process; those of the dead are swept up."""
    place = Path(tempfile.gettempdir())
    for old in place.glob(f"{PREFIX}*"):
        pid = old.name.removeprefix(PREFIX).split("-")[0]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    maker = os.getpid()
    made = tempfile.mkdtemp(prefix=f"{PREFIX}{maker}-")

    def remove() -> None:
        if os.getpid() == maker:  # not when one of its children ends
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    os.environ[DIRECTORY] = made
    return Path(made)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's process, and so is its directory
        return True
    return True


_directory = Path(os.environ[DIRECTORY]) if DIRECTORY in os.environ else _own_directory()

from prometheus_client import (  # noqa: E402 - the directory above decides its mode
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    multiprocess,
    start_http_server,
    values,
)

if not getattr(values.ValueClass, "_multiprocess", False):
    values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]

from app import facts  # noqa: E402

_registry = CollectorRegistry()
CYCLE_SECONDS = Histogram(
    "calendar_appointment_timeout_cycle_duration_seconds",
    "Duration of a cycle",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45),
    registry=_registry,
)
ITEMS = Counter(
    "calendar_appointment_timeout_items",
    "Expired appointments by what became of their slot",
    ["slot_outcome"],
    registry=_registry,
)
SKIP_LOCKED = Counter(
    "calendar_appointment_timeout_skip_locked",
    "Appointments passed over because another transaction held them",
    registry=_registry,
)
ERRORS = Counter(
    "calendar_appointment_timeout_errors",
    "Failed items and failed cycles",
    registry=_registry,
)
TICKS_SKIPPED = Counter(
    "calendar_appointment_timeout_ticks_skipped",
    "Ticks that found the previous cycle still at work on this instance",
    registry=_registry,
)
LAST_SUCCESS = Gauge(
    "calendar_appointment_timeout_last_success_timestamp_seconds",
    "When a cycle last succeeded on this node",
    multiprocess_mode="max",
    registry=_registry,
)
PUBLISHED = Counter(
    "calendar_outbox_published", "Messages acknowledged by Kafka", registry=_registry
)
REFUSED = Counter(
    "calendar_outbox_refused", "Refusals of a message for its own sake", registry=_registry
)
for _outcome in ("released", "expired"):  # every series exists as 0 from the start
    ITEMS.labels(slot_outcome=_outcome)


def listener(fact: facts.Fact) -> None:
    """Count a fact."""
    match fact:
        case facts.AppointmentExpired(slot_outcome=outcome):
            ITEMS.labels(slot_outcome=outcome).inc()
        case facts.ItemFailed():
            ERRORS.inc()
        case facts.CycleEnded():
            _cycle(fact)
        case facts.DrainEnded():
            PUBLISHED.inc(fact.result["PublishedCount"])
        case facts.MessageRefused():
            REFUSED.inc()
        case facts.TickSkipped(job="appointment_timeout"):
            TICKS_SKIPPED.inc()
        case _:
            pass


def _cycle(fact: facts.CycleEnded) -> None:
    CYCLE_SECONDS.observe(fact.result["DurationMs"] / 1000)
    SKIP_LOCKED.inc(fact.result["SkippedLockedCount"])
    if fact.outcome == "failed":
        ERRORS.inc()
    elif fact.outcome in {"completed", "cut_short"}:
        LAST_SUCCESS.set_to_current_time()


def serve(host: str, port: int) -> None:
    """Serve the node's sum from its main process; OSError when the port is taken."""
    served = CollectorRegistry()
    multiprocess.MultiProcessCollector(served, path=str(_directory))  # type: ignore[no-untyped-call]
    start_http_server(port, addr=host, registry=served)


def child_ended(pid: int) -> None:
    """A child's gauges end with it; its counts stay."""
    multiprocess.mark_process_dead(pid, str(_directory))  # type: ignore[no-untyped-call]
