"""Python's wall clocks, shifted by CHAOS_CLOCK_SHIFT seconds.

Becomes a `sitecustomize` of one worker. Only Python's own clocks are shifted: libpq, librdkafka
and the kernel keep the true time. Harmless when imported without the variable.
"""

import datetime as dt
import os
import time
from datetime import datetime
from typing import Any

_shift = float(os.environ.get("CHAOS_CLOCK_SHIFT", "0"))
_true_time = time.time


class _AnyDatetime(type):
    """Times made in C are of the true class, and count as ours."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, datetime)


class _ShiftedDatetime(datetime, metaclass=_AnyDatetime):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return datetime.now(tz) + dt.timedelta(seconds=_shift)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(dt.UTC).replace(tzinfo=None)


if _shift:
    time.time = lambda: _true_time() + _shift
    dt.datetime = _ShiftedDatetime  # type: ignore[misc]
