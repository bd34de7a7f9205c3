"""A record's span, on the other side of the outbox (section 8, O6)."""

from uuid import UUID, uuid4

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.kafka import Sender
from app.telemetry.spans import Spans
from dev.servers.kafka import Kafka
from tests.publish.conftest import PARTITIONS
from tests.publish.outbox_world import OutboxWorld, everything_on

ITEM = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}"
RUN = "the item's run"


def written(outbox: OutboxWorld, flags: str = "01", topic: str | None = None) -> UUID:
    headers = f'{{"correlation-id": "{RUN}", "traceparent": "{ITEM.format(flags=flags)}"}}'
    return outbox.add(topic=topic, headers=headers)


def by_message(kept: InMemorySpanExporter) -> dict[object, ReadableSpan]:
    sent = [span for span in kept.get_finished_spans() if span.name.startswith("send ")]
    return {(span.attributes or {})["messaging.message.id"]: span for span in sent}


def span_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def test_it_is_the_items_child_tells_the_refusal_and_changes_no_header(
    outbox: OutboxWorld, sender: Sender, broker: Kafka, spans: Spans, kept: InMemorySpanExporter
) -> None:
    """What is tried again has a span for each try, and travels with the row's own traceparent."""
    good, bad = written(outbox), written(outbox, topic=f"unknown-{uuid4()}")
    with spans.run("drain", "run"):
        assert outbox.drain(sender, tell=spans.hear).refused == 1
    found = by_message(kept)
    [drain] = [span for span in kept.get_finished_spans() if span.name == "drain"]
    for name in (good, bad):
        span = found[str(name)]
        assert span.parent is not None
        assert f"00-{span.parent.trace_id:032x}-{span.parent.span_id:016x}-01" == ITEM.format(
            flags="01"
        )
        assert [link.context.span_id for link in span.links] == [span_id(drain)]
        assert (span.attributes or {})["correlationId"] == RUN
    assert found[str(good)].status.is_unset
    assert found[str(bad)].status.description == outbox.row(bad)["last_error"]
    outbox.execute("UPDATE calendar.outbox_messages SET published_at = NULL")
    outbox.drain(sender, tell=spans.hear)
    records = everything_on(broker.bootstrap, outbox.topic, PARTITIONS)
    assert [dict(r.headers)["traceparent"].decode() for r in records] == [
        ITEM.format(flags="01")
    ] * 2
    assert len(kept.get_finished_spans()) == 5


def test_an_item_that_was_not_sampled_has_none_and_a_row_without_a_trace_is_the_drains(
    outbox: OutboxWorld, sender: Sender, spans: Spans, kept: InMemorySpanExporter
) -> None:
    written(outbox, flags="00")
    plain, odd = outbox.add(), outbox.add(headers='{"traceparent": "00-a-b-00", "more": null}')
    with spans.run("drain", "run"):
        assert outbox.drain(sender, tell=spans.hear).published == 3
    found = by_message(kept)
    assert set(found) == {str(plain), str(odd)}
    [drain] = [span for span in kept.get_finished_spans() if span.name == "drain"]
    assert drain.attributes is not None
    assert (drain.attributes["outcome"], drain.attributes["PublishedCount"]) == ("completed", 3)
    for span in found.values():
        assert span.parent is not None
        assert span.parent.span_id == span_id(drain)
