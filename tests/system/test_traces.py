"""Section 8, O6: one trace from the tick to the Kafka record, in every pool; off, nothing."""

import signal
import subprocess
import sys

import pytest

from app.domain.outbox import TOPICS
from dev.servers.consumer import read_topics
from tests.neighbour import wait_until
from tests.system.celery_process import tick
from tests.system.collector import SENDER, Collector, Span
from tests.system.conftest import Start, published
from tests.world import MINUTE, World

TASK = "calendar.appointment_timeout"
DRAIN = "calendar.outbox_publisher"
NEVER = {"OTEL_BSP_SCHEDULE_DELAY": "3600000"}
"""In milliseconds: what comes has been flushed."""


def finished(world: World, job: str = "appointment_timeout") -> list[str]:
    rows = world.all(
        "SELECT run_id FROM calendar.job_runs WHERE job = :job AND finished_at IS NOT NULL",
        job=job,
    )
    return [row["run_id"] for row in rows]


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

    drains = {span.id: span for span in collecting.named("drain")}
    [woken] = collecting.named(DRAIN)
    assert {span.parent for span in drains.values()} == {woken.id}
    assert woken.parent in {span.id for span in collecting.named("item")}
    rule = world.failures()[poison.appointment]["rule"]
    items = {span.attributes["AppointmentId"]: span for span in collecting.named("item")}
    assert {span.parent for span in items.values()} == {cycle.id}
    outcomes = {usable: "released", past: "expired", poison: None}
    for made, outcome in outcomes.items():
        item = items.pop(str(made.appointment))
        assert item.attributes["tenantId"] == str(made.tenant)
        assert item.attributes.get("slot_outcome") == outcome
        assert item.error == (rule if made is poison else None)
        rows = {str(row["message_id"]): row for row in world.messages(made)}
        assert {row["headers"]["traceparent"] for row in rows.values()} <= {item.traceparent}
        sent = {str(s.attributes["messaging.message.id"]): s for s in sends(collecting, item)}
        assert set(sent) == set(rows)
        for message_id, span in sent.items():
            assert span.attributes["messaging.destination.name"] == rows[message_id]["topic"]
            assert span.attributes["correlationId"] == run_id
            assert set(span.links) <= set(drains)
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


def test_a_child_that_is_recycled_leaves_no_span_behind(
    world: World, start: Start, environment: dict[str, str], collecting: Collector
) -> None:
    worker = start(
        "worker",
        "--max-tasks-per-child",
        "1",
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collecting.url}/v1/traces",
        OTEL_SERVICE_NAME="another-name",
        OTEL_EXPORTER_OTLP_HEADERS="api-key=s3cret",
        **NEVER,
    )
    runs = set()
    for count in (1, 2, 3):
        runs.add(tick(TASK, environment))
        cycles = collecting.wait_for("cycle", count)
    assert {span.attributes["correlationId"] for span in cycles} == runs
    assert {span.service for span in cycles} == {"another-name"}
    assert {span.headers["api-key"] for span in cycles} == {"s3cret"}
    assert len({span.trace for span in cycles}) == 3
    assert "s3cret" not in worker.text


def test_a_sender_that_is_not_sampled_decides_for_the_whole_way(
    world: World, start: Start, environment: dict[str, str], collecting: Collector
) -> None:
    """Its trace goes on over the outbox, and nobody records any of it."""
    worker = start("worker", OTEL_EXPORTER_OTLP_ENDPOINT=collecting.url, **NEVER)
    world.appointment()
    tick(TASK, environment, headers={"traceparent": f"{SENDER}-00"})
    wait_until(lambda: published(world) == 2, "both messages")
    worker.signal(signal.SIGTERM)
    worker.wait_exit()
    carried = {row["headers"]["traceparent"] for row in world.messages()}
    [(version, trace, _, flags)] = [tuple(one.split("-")) for one in carried]
    assert (version, trace, flags) == ("00", SENDER.split("-")[1], "00")
    assert [s for s in collecting.spans if s.trace == trace] == []


@pytest.mark.parametrize("header", [5, {}, "", "00-zz-1-01", f"{SENDER}-zz", "0" * 9999], ids=str)
def test_a_sender_that_tells_nonsense_gets_a_trace_of_the_ticks_own(
    world: World, start: Start, environment: dict[str, str], collecting: Collector, header: object
) -> None:
    start("worker", OTEL_EXPORTER_OTLP_ENDPOINT=collecting.url, OTEL_BSP_SCHEDULE_DELAY="50")
    world.appointment()
    run_id = tick(TASK, environment, headers={"traceparent": header})
    [ticked] = collecting.wait_for(TASK)
    assert (ticked.parent, ticked.attributes["correlationId"]) == ("", run_id)
    assert finished(world) == [run_id]
    [item] = collecting.wait_for("item")
    assert {row["headers"]["traceparent"] for row in world.messages()} == {item.traceparent}


FOREIGN = """
from celery import Celery, signals
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

foreign = Celery("foreign", broker="memory://", include=["tasks.appointment_timeout"])
foreign.loader.import_default_modules()
theirs, kept = TracerProvider(), InMemorySpanExporter()
theirs.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(theirs)
worker = foreign.Worker()
signals.celeryd_after_setup.send(sender="node", instance=worker, conf=foreign.conf)
with trace.get_tracer("theirs").start_as_current_span("their task"):
    foreign.tasks["calendar.appointment_timeout"].apply()
names = {span.context.span_id: span.name for span in kept.get_finished_spans()}
for span in kept.get_finished_spans():
    print(names[span.parent.span_id] if span.parent else None, "->", span.name)
import sys
print("app.telemetry.otlp" in sys.modules)
"""


def test_in_a_foreign_app_the_spans_are_its_own_and_nothing_of_it_is_set_up(
    world: World, environment: dict[str, str], collecting: Collector
) -> None:
    """Its provider keeps them, below its own span of the task, and its exporter sends them."""
    world.appointment()
    told = subprocess.run(
        [sys.executable, "-c", FOREIGN],
        env={**environment, "OTEL_EXPORTER_OTLP_ENDPOINT": collecting.url},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told == ["cycle -> item", "their task -> cycle", "None -> their task", "False"]
    assert not collecting.asked.is_set()
