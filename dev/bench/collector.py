"""A little collector of traces: takes OTLP over HTTP, and counts the spans by name."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dev import otlp


class Collector:
    """What has come so far, and in how many batches."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: Counter[str] = Counter()
        self.batches = 0

    def take(self, body: bytes, _headers: Mapping[str, str]) -> bool:
        """One batch."""
        self.batches += 1
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.spans.update(span.name for scope in resource.scope_spans for span in scope.spans)
        return True


@contextmanager
def collector() -> Iterator[Collector]:
    """One that listens until the end of the block."""
    made = Collector()
    with otlp.listening(made.take) as made.url:
        yield made
