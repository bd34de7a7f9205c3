"""Section 8, O6: one trace from the tick to the Kafka record, in every pool; off, nothing."""

import signal
from collections.abc import Iterator

import pytest

from app.domain.outbox import TOPICS
from dev.servers.consumer import read_topics
from tests.neighbour import wait_until
from tests.system.celery_process import tick
from tests.system.collector import Collector, Span, collector
from tests.system.conftest import Start
from tests.world import MINUTE, World

TASK = "calendar.appointment_timeout"
DRAIN = "calendar.outbox_publisher"
SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
NEVER = {"OTEL_BSP_SCHEDULE_DELAY": "3600000"}
"""In milliseconds: what comes has been flushed."""


@pytest.fixture
def collecting() -> Iterator[Collector]:
    with collector() as made:
        yield made


def finished(world: World, job: str = "appointment_timeout") -> list[str]:
    rows = world.all(
        "SELECT run_id FROM calendar.job_runs WHERE job = :job AND finished_at IS NOT NULL",
        job=job,
    )
    return [row["run_id"] for row in rows]


def published(world: World) -> int:
    return len(world.all("SELECT FROM calendar.outbox_messages WHERE published_at IS NOT NULL"))


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_one_trace_goes_from_the_tick_over_the_outbox_to_the_kafka_record(
    world: World, start: Start, environment: dict[str, str], collecting: Collector, pool: str
) -> None:
    """All of it comes by the flush of processes that end, prefork's children among them."""
    usable, past = world.appointment(), world.appointment(starts_in=30 * MINUTE)
    poison = world.appointment(slot_status="Available")
    worker = start("worker", "--pool", pool, OTEL_EXPORTER_OTLP_ENDPOINT=collecting.url, **NEVER)
    run_id = tick(TASK, environment, headers={"traceparent": f"{SENDER}-01"})
    wait_until(lambda: published(world) == 4, "both pairs of messages")
    wait_until(lambda: finished(world) and finished(world, "outbox_publisher"), "the runs' ends")
    worker.signal(signal.SIGTERM)
    worker.wait_exit()

    [ticked] = collecting.named(TASK)
    assert f"00-{ticked.trace}-{ticked.parent}" == SENDER
    [cycle] = collecting.named("cycle")
    assert (cycle.trace, cycle.parent) == (ticked.trace, ticked.id)
    assert ticked.attributes["correlationId"] == cycle.attributes["correlationId"] == run_id
    assert cycle.attributes["outcome"] == "completed"
    assert (cycle.attributes["ExpiredCount"], cycle.attributes["SlotsReleasedCount"]) == (2, 1)

    items = {span.attributes["AppointmentId"]: span for span in collecting.named("item")}
    assert {span.parent for span in items.values()} == {cycle.id}
    outcomes = {usable: "released", past: "expired", poison: None}
    for made, outcome in outcomes.items():
        item = items.pop(str(made.appointment))
        assert item.attributes["tenantId"] == str(made.tenant)
        assert item.attributes.get("slot_outcome") == outcome
        assert (item.error is None) == (made is not poison)
        rows = {str(row["message_id"]): row for row in world.messages(made)}
        assert {row["headers"]["traceparent"] for row in rows.values()} <= {item.traceparent}
        sent = {s.attributes["messaging.message.id"]: s for s in sends(collecting, item)}
        assert set(sent) == set(rows)
        for message_id, span in sent.items():
            assert span.attributes["messaging.destination.name"] == rows[message_id]["topic"]
            assert span.attributes["correlationId"] == run_id
            assert set(span.links) <= {drain.id for drain in collecting.named("drain")}
    assert items == {}

    records = read_topics(environment["KAFKA_BOOTSTRAP_SERVERS"], TOPICS, expected=4, timeout=60)
    carried = {dict(record.headers)["traceparent"].decode() for record in records}
    assert carried == {row["headers"]["traceparent"] for row in world.messages()}
    assert {span.service for span in collecting.spans} == {"appointment-timeout"}
    for line in worker.lines("appointment expired") + worker.lines("cycle completed"):
        assert line["trace_id"] == ticked.trace


def sends(collecting: Collector, item: Span) -> list[Span]:
    """The records that were sent for an item."""
    return [s for s in collecting.spans if s.name.startswith("send ") and s.parent == item.id]
