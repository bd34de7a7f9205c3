"""When the work runs: the Celery instance. `celery -A tasks worker` finds it here."""

from celery import Celery, signals

from tasks import process

# Never the current app by import: a foreign app that includes our tasks stays its own.
celery = Celery("calendar", config_source="celeryconfig", set_as_current=False)


@celery.on_configure.connect
def _ours(**_signal: object) -> None:
    """Only where this app itself is used are logging and tracing ours to set up."""
    for early in (signals.celeryd_init, signals.setup_logging):  # its first words are warnings
        early.connect(process.own_logging, weak=False)
    signals.celeryd_after_setup.connect(process.own_traces, weak=False)
