"""Where our own worker's spans go: over OTLP/HTTP to the collector of the `OTEL_*` variables.

Imported only when they ask for it. Spans are sent from a thread of their own, in batches; when the
collector is away they are dropped, and no item waits for it.
"""

import logging
import threading

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

FLUSH_SECONDS = 2.0
"""So long a process that ends waits for the collector to take its last spans."""


def set_up() -> None:
    """Before the pool forks: the sending thread starts anew in each child."""
    provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)  # not each try, each loss
    trace.set_tracer_provider(provider)


def _resource() -> Resource:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, with a name of ours when they give none."""
    found = Resource.create()
    if str(found.attributes[SERVICE_NAME]).startswith("unknown_service"):
        return found.merge(Resource({SERVICE_NAME: "appointment-timeout"}))
    return found


def flush() -> None:
    """Send what is still here, as far as the collector takes it within `FLUSH_SECONDS`.

    In a thread, since OpenTelemetry's own flush has no bound: ten seconds for each batch.
    """
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        flushing = threading.Thread(target=provider.force_flush, name="flush-spans", daemon=True)
        flushing.start()
        flushing.join(FLUSH_SECONDS)
