"""The spans of a run, by OpenTelemetry's interface alone: who sends them is set elsewhere.

Identifiers only; of an error its rule or class, never its text (D5).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app import facts
from app.domain.appointment import Appointment
from app.store.runs import Outcome
from app.telemetry.traces import Traces

Attributes = dict[str, str | int]


class Spans(Traces):
    """The on position."""

    on = True

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def tick(self, task: str, run_id: str, traceparent: object) -> AbstractContextManager[object]:
        """None of ours where the app that includes our tasks has made one already."""
        if get_current_span().get_span_context().is_valid:
            return nullcontext()
        sender = _context(traceparent)
        return self._span(task, {"correlationId": run_id}, SpanKind.CONSUMER, context=sender)

    def run(self, name: str, run_id: str) -> AbstractContextManager[object]:
        """Its figures come with the fact that it has ended."""
        return self._span(name, {"correlationId": run_id})

    @contextmanager
    def item(self, appointment: Appointment, began: int) -> Iterator[str | None]:
        """How it came out is told by a fact, before the block ends."""
        ids: Attributes = {
            "tenantId": str(appointment.tenant_id),
            "AppointmentId": str(appointment.id),
        }
        with self._span("item", ids, began=began) as span:
            yield _traceparent(span)

    def hear(self, fact: facts.Fact) -> None:
        """Put it on this thread's span."""
        span = get_current_span()
        match fact:
            case facts.AppointmentExpired(slot_outcome=outcome):
                span.set_attribute("slot_outcome", outcome)
            case facts.ItemFailed(failure=failure):
                span.set_status(StatusCode.ERROR, failure.rule)
            case facts.CycleEnded() | facts.DrainEnded():
                span.set_attributes({"outcome": fact.outcome, **fact.result})
                if fact.outcome == Outcome.FAILED:
                    span.set_status(StatusCode.ERROR, fact.detail)
            case facts.TickSkipped(reason=reason):
                span.set_attributes({"outcome": Outcome.SKIPPED, "reason": reason})
            case facts.MessagesSent(began=began, ended=ended, answers=answers):
                drain = Link(span.get_span_context())
                for answer in answers():
                    self._record(answer, drain, began, ended)

    def _record(self, answer: facts.Answer, drain: Link, began: int, ended: int) -> None:
        """A message on its way to Kafka: a child of the item that wrote it, however long ago."""
        span = self._tracer.start_span(
            f"send {answer.topic}",
            context=_context(answer.traceparent),
            kind=SpanKind.PRODUCER,
            links=[drain],
            start_time=began,
            attributes={
                "messaging.system": "kafka",
                "messaging.operation.type": "send",
                "messaging.destination.name": answer.topic,
                "messaging.message.id": answer.message_id,
                "correlationId": answer.correlation_id or "",
            },
        )
        if answer.error is not None:
            span.set_status(StatusCode.ERROR, answer.error)
        span.end(ended)

    def carried(self) -> dict[str, str]:
        """The header that W3C has for it."""
        traceparent = _traceparent(get_current_span())
        return {"traceparent": traceparent} if traceparent else {}

    def ids(self) -> dict[str, str]:
        """As OpenTelemetry names them in logs that it does not carry itself."""
        context = get_current_span().get_span_context()
        if not context.is_valid:
            return {}
        return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}

    @contextmanager
    def _span(
        self,
        name: str,
        attributes: Attributes,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        context: Context | None = None,
        began: int | None = None,
    ) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name,
            context,
            kind,
            attributes,
            start_time=began,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:  # whatever ends the run, or a signal: passed on
                span.set_status(StatusCode.ERROR, type(error).__name__)
                raise


def _context(traceparent: object) -> Context | None:
    """What a traceparent says; None, so the present context, when it is none."""
    if not isinstance(traceparent, str):
        return None
    found = TraceContextTextMapPropagator().extract({"traceparent": traceparent})
    return found if get_current_span(found).get_span_context().is_valid else None


def _traceparent(span: Span) -> str | None:
    """W3C trace context; of the flags the one that contract v1 knows: sampled."""
    context = span.get_span_context()
    if not context.is_valid:
        return None
    sampled = int(context.trace_flags.sampled)
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{sampled:02x}"
