"""The time that the schedule goes by: it never jumps.

Celery's schedules compare points of the wall clock: one set back by an hour would keep the beat
silent for an hour, one set forward would send ticks early.
"""

import time
from datetime import UTC, datetime, timedelta

_STARTED_AT = datetime.now(UTC)
_STARTED = time.monotonic()


def now() -> datetime:
    """The wall clock as it was when this process began, carried on by the monotonic one."""
    return _STARTED_AT + timedelta(seconds=time.monotonic() - _STARTED)
