"""The life of a worker's processes: start, stop, and what may not cross a fork."""

import sys
from typing import Any

from celery import signals
from sqlalchemy.exc import SQLAlchemyError

from app import database, kafka, schema
from app.environment import SettingsError
from app.settings import (
    AppointmentTimeoutSettings,
    KafkaSettings,
    OutboxSettings,
    TelemetrySettings,
    TracingSettings,
)
from app.store import errors
from app.telemetry import logs, traces
from tasks import timetable
from tasks.instance import Instance

log = logs.logger()
_node: list[Instance] = []


def instance() -> Instance:
    """The worker node that this process belongs to; a lone process is one of its own."""
    if not _node:
        _node.append(Instance())
    return _node[0]


def own_logging(**_signal: Any) -> None:
    """Our own app logs our way; connected only there, never in a foreign app."""
    logs.configure(TelemetrySettings.load().log_format)


def own_traces(**_signal: Any) -> None:
    """Before the pool forks and once there is a log; in our own app only: others have their way."""
    try:
        if not TracingSettings.load().on or traces.here().on:
            return
        from app.telemetry import otlp  # noqa: PLC0415 - only where traces are wanted

        otlp.set_up()
    except ImportError:
        log.warning("traces are off", detail="Install appointment-timeout[tracing] for them.")
    except Exception as error:  # noqa: BLE001 - a variable that is refused, some while importing
        log.warning("traces are off", detail=str(error))
    else:
        for end in (signals.worker_process_shutdown, signals.worker_shutdown):
            end.connect(lambda **_signal: otlp.flush(), weak=False)


def serves(app: Any) -> bool:
    """Whether this worker takes our tasks: a foreign app may know them and serve others only."""
    known = [task for task in timetable.ROUTES if task in app.tasks]
    sent_to = [app.amqp.router.route({}, task).get("queue") for task in known]
    return any(queue.name in app.amqp.queues.consume_from for queue in sent_to if queue)


@signals.celeryd_after_setup.connect(weak=False)
def begin(**signal: Any) -> None:
    """Before the pool forks, and once there is a log: make what the node shares, and look.

    What it shares is made in every worker: each can be told later to serve our queues.
    """
    instance()
    app = signal["instance"].app
    if not serves(app):
        return
    refusal = _refusal()
    if refusal and set(app.amqp.queues.consume_from) <= set(timetable.QUEUES):
        sys.exit(refusal)
    if refusal:  # other tasks are done here too, and they are not ours to stop
        log.error("the calendar's tasks will fail here", detail=refusal)
        return
    instance().serving = True
    from app.telemetry import metrics  # noqa: F401, PLC0415 - its directory, before the fork


def _refusal() -> str | None:
    """What of the settings or the schema is wrong, as one sentence."""
    try:
        found = database.configured()
        for group in (AppointmentTimeoutSettings, OutboxSettings, TelemetrySettings):
            group.load()
        kafka.check(KafkaSettings.load())
        with found.connect() as connection:
            schema.check(connection)
    except (SettingsError, schema.SchemaError) as error:
        return str(error)
    except SQLAlchemyError as error:  # it may come back: every tick will say so until it does
        log.warning("database not reached at start", detail=errors.sentence(error))
    else:
        found.dispose()
    return None


@signals.beat_init.connect(weak=False)
def beat_begins(**_signal: Any) -> None:
    """A foreign app's beat; our own does not come so far with a wrong setting."""
    for group in (AppointmentTimeoutSettings, OutboxSettings):
        for _variable, sentence in group.faults():
            log.error("ticks are sent by the usual intervals", detail=sentence)


@signals.worker_ready.connect(weak=False)
def ready(**_signal: Any) -> None:
    """In the main process, after the pool is up: serve the node's metrics."""
    settings = TelemetrySettings.load_or_default()
    if settings.metrics_port is None or not instance().serving:
        return
    from app.telemetry import metrics  # noqa: PLC0415 - in a worker only

    try:
        metrics.serve(settings.metrics_host, settings.metrics_port)
    except OSError as error:  # another program has the port: the work matters more
        log.warning("metrics are not served", detail=str(error))


@signals.worker_shutting_down.connect(weak=False)
def stop(**_signal: Any) -> None:
    """Runs inside the signal handler: sets one byte, which every run asks between items (S5)."""
    instance().request_stop()


@signals.worker_process_init.connect(weak=False)
def child_begins(**_signal: Any) -> None:
    """A prefork child: an idempotent producer needs 0.5 s before its first message."""
    if instance().serving:
        kafka.sender(KafkaSettings.load()).connect()


@signals.worker_process_shutdown.connect(weak=False)
def child_ends(**_signal: Any) -> None:
    """A prefork child ends, recycled or stopped."""
    kafka.close_all()


@signals.worker_shutdown.connect(weak=False)
def node_ends(**_signal: Any) -> None:
    """The main process ends; in threads and solo the work was done here."""
    kafka.close_all()
