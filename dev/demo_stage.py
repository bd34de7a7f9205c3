"""The demo from its first line to its last: what it starts, and how it ends."""

import os
import shutil
import sys
import time
from pathlib import Path

from rich.console import Console
from sqlalchemy.exc import SQLAlchemyError

from app.domain.law import Refusal
from app.domain.outbox import TOPICS
from app.environment import SettingsError
from app.store import errors
from dev.demo_given import own_corners
from dev.demo_plot import Plot
from dev.demo_watch import Voice
from dev.processes import ROOT, CeleryProcesses, Ending, Failure, sentence, shown, without
from dev.servers.process import ServerError
from dev.servers.stack import Stack

# The demo's own pace, whatever the shell it is started from has set for other purposes.
_PACE = {
    "APPOINTMENT_TIMEOUT_INTERVAL_SECONDS": "5",
    "OUTBOX_PUBLISHER_INTERVAL_SECONDS": "5",
    "LOG_FORMAT": "console",
    "FLOWER_UNAUTHENTICATED_API": "true",  # it listens on loopback only
}
_OTHERS = ("APPOINTMENT_TIMEOUT_", "OUTBOX_", "METRICS_", "FLOWER_")
_INTRODUCTION = """
An investor books a viewing, and the agent has until a deadline to confirm it.
If the agent does not, the appointment expires by itself: its slot goes back on
sale, its calendar event is cancelled, its reminders are skipped, and Kafka
tells all who must know. See it happen, on real servers and real Celery."""


def play() -> None:
    """Play it and tidy up, however it ends."""
    directory = ROOT / ".run" / "demo" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    voice = Voice(_console())
    voice.console.print(_INTRODUCTION)
    try:
        _perform(voice, directory)
    except ServerError as error:
        _fail(sentence(error), directory)
    except (Failure, SettingsError, Refusal) as error:
        _fail(str(error), directory)
    except SQLAlchemyError as error:
        _fail(errors.sentence(error), directory)
    except SystemExit:  # a signal
        _remove(directory)
        raise
    _remove(directory)
    voice.say("All that the demo started is stopped and removed.")


def _console() -> Console:
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Cyrillic is no reason to end
    return Console(highlight=False)


def _perform(voice: Voice, directory: Path) -> None:
    with Ending() as ending:
        given = ending.enter_context(own_corners(os.environ))
        stack = Stack(directory, given=given, topics=dict.fromkeys(TOPICS, 3))
        ending.callback(stack.stop)
        with voice.busy("Starting PostgreSQL, Valkey and Kafka"):
            stack.start()
        celery = CeleryProcesses(directory, _environment(stack))
        ending.callback(celery.close)
        ending.push(lambda kind, _error, _trace: voice.stopping() if kind is SystemExit else None)
        Plot(voice, stack, celery).play()


def _environment(stack: Stack) -> dict[str, str]:
    """For the product's processes; `KAFKA_…` options are meant for a given broker only."""
    others = _OTHERS if stack.kafka is None else (*_OTHERS, "KAFKA_")
    return {**without(os.environ, *others), **_PACE, **stack.environment}


def _fail(trouble: str, directory: Path) -> None:
    """End with one plain sentence."""
    logs = any(log.stat().st_size for log in directory.glob("*.log"))
    if not logs:
        _remove(directory)
    where = f" The logs are in {shown(directory)}." if logs else ""
    sys.exit(f"The demo failed: {trouble.rstrip('.')}.{where}")


def _remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    for parent in (directory.parent, directory.parent.parent):
        try:
            parent.rmdir()
        except OSError:  # others are there
            return
