"""A little collector of traces: takes OTLP over HTTP, and counts the spans by name."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What has come so far, and in how many batches."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: Counter[str] = Counter()
        self.batches = 0

    def take(self, body: bytes) -> None:
        """One batch."""
        self.batches += 1
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.spans.update(span.name for scope in resource.scope_spans for span in scope.spans)


@contextmanager
def collector() -> Iterator[Collector]:
    """One that listens until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # the exporter keeps its connection

        def do_POST(self) -> None:
            made.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        log_message: Callable[..., None] = staticmethod(lambda *_line: None)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made = Collector(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
