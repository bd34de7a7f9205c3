"""A collector of the test's own: takes OTLP over HTTP, as protobuf, and keeps every span."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dev import otlp
from tests.neighbour import wait_until

SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
"""A trace context of somebody else, up to its flags."""


@dataclass(frozen=True)
class Span:
    """A span as it came over the wire; ids in hexadecimal digits."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    attributes: dict[str, object]
    error: str | None
    """Its status' description; None when it is no error."""
    links: list[str]
    seconds: float
    service: str
    headers: dict[str, str]
    """Of the request that brought it."""

    @property
    def traceparent(self) -> str:
        """What travels under this span, sampled."""
        return f"00-{self.trace}-{self.id}-01"


class Collector:
    """What has come so far."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Span] = []
        self.silent = threading.Event()
        """Once set, it takes requests and never answers them."""
        self.asked = threading.Event()

    def named(self, name: str) -> list[Span]:
        """The spans of this name."""
        return [span for span in self.spans if span.name == name]

    def wait_for(self, name: str, count: int = 1) -> list[Span]:
        """At least so many spans of this name."""
        wait_until(lambda: len(self.named(name)) >= count, f"{count} spans named {name}")
        return self.named(name)


def _values(attributes: Any) -> dict[str, object]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def _spans(body: bytes, headers: dict[str, str]) -> Iterator[Span]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = str(_values(resource.resource.attributes)["service.name"])
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            yield Span(
                name=span.name,
                kind=span.kind,
                trace=span.trace_id.hex(),
                id=span.span_id.hex(),
                parent=span.parent_span_id.hex(),
                attributes=_values(span.attributes),
                error=span.status.message
                if span.status.code == span.status.STATUS_CODE_ERROR
                else None,
                links=[link.span_id.hex() for link in span.links],
                seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                service=service,
                headers=headers,
            )


@contextmanager
def collector() -> Iterator[Collector]:
    """One that listens until the end of the block."""
    over = threading.Event()

    def take(body: bytes, headers: Mapping[str, str]) -> bool:
        made.asked.set()
        if made.silent.is_set():
            over.wait()
            return False
        made.spans.extend(_spans(body, dict(headers)))
        return True

    made = Collector()
    with otlp.listening(take) as made.url:
        try:
            yield made
        finally:
            over.set()
