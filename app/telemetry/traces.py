"""What is traced (section 8): tick, cycle, item; drain, Kafka record. Off by default.

On where a tracer provider is set in this process: by us in our own worker (see `otlp`), or by the
app that includes our tasks. Off, nothing of OpenTelemetry is imported here.
"""

import sys
from collections.abc import MutableMapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from app import facts
from app.domain.appointment import Appointment


class Traces:
    """What the doors tell of a run; this is the off position, in which nobody hears it."""

    on = False

    def tick(
        self, _task: str, _run_id: str, _traceparent: object
    ) -> AbstractContextManager[object]:
        """A task's run, in the trace of who has sent it if that one tells its own."""
        return nullcontext()

    def run(self, _name: str, _run_id: str) -> AbstractContextManager[object]:
        """A cycle or a drain."""
        return nullcontext()

    def item(self, _appointment: Appointment, _began: int) -> AbstractContextManager[str | None]:
        """One appointment; its two messages travel under this trace context (O6)."""
        return nullcontext()

    def hear(self, _fact: facts.Fact) -> None:
        """How what is under way in this thread comes out."""

    def carried(self) -> dict[str, str]:
        """What a task message takes along, so that its run belongs to this trace."""
        return {}

    def ids(self) -> dict[str, str]:
        """What a log line is found by from its trace, and the other way round."""
        return {}


_OFF = Traces()


def here() -> Traces:
    """Those of this process."""
    # Asked directly: `get_tracer_provider` would make one of the name in an environment variable,
    # and fails, each time, when there is none of that name.
    provider = getattr(sys.modules.get("opentelemetry.trace"), "_TRACER_PROVIDER", None)
    return _OFF if provider is None else _on(provider)


@cache
def _on(provider: Any) -> Traces:
    from app.telemetry.spans import Spans  # noqa: PLC0415 - imports OpenTelemetry

    return Spans(provider.get_tracer("calendar"))


def add_ids(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """For structlog: a line that is logged under a span names its trace."""
    line.update(here().ids())
    return line
