"""What an item's span says of its end (section 8): rule or class, never a row's content (D5)."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.store.runs import Outcome
from app.telemetry.spans import Spans
from tests.gate import gate
from tests.interleaving import plants
from tests.neighbour import Neighbour
from tests.world import World

SPOILED = """
CREATE FUNCTION calendar.spoil() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN {what}; RETURN NEW; END $$;
CREATE TRIGGER spoil BEFORE UPDATE ON calendar.appointments
FOR EACH ROW EXECUTE FUNCTION calendar.spoil();
"""
CONFIRMED = """UPDATE calendar.appointments
SET status = 'Confirmed', version = version + 1 WHERE id = :id"""
CONTENT = "of row 4711"


def the_only(kept: InMemorySpanExporter) -> ReadableSpan:
    [span] = kept.get_finished_spans()
    return span


def test_c5_of_what_ends_a_cycle_within_an_item_the_span_keeps_the_class_alone(
    world: World, spans: Spans, kept: InMemorySpanExporter
) -> None:
    world.appointment()
    world.execute(SPOILED.format(what=f"RAISE EXCEPTION '{CONTENT}' USING ERRCODE = '57P01'"))
    report = world.run(trace=spans.item, tell=spans.hear, connections=1)
    assert report.outcome is Outcome.FAILED
    span = the_only(kept)
    assert (span.status.is_ok, span.status.description) == (False, "OperationalError")
    assert CONTENT not in span.to_json()


def test_c4_of_an_item_that_fails_the_span_keeps_the_rule(
    world: World, spans: Spans, kept: InMemorySpanExporter
) -> None:
    made = world.appointment()
    world.execute(SPOILED.format(what=f"RAISE EXCEPTION '{CONTENT}'"))
    assert world.run(trace=spans.item, tell=spans.hear).failed == 1
    span = the_only(kept)
    assert span.status.description == world.failures()[made.appointment]["rule"]
    assert CONTENT not in span.to_json()


def test_r2_an_item_that_a_rival_won_is_no_error_and_has_no_outcome(
    world: World,
    spans: Spans,
    kept: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The version that was read is gone when it is written, which the locks would not allow."""
    plants.claim_without_lock(monkeypatch.setattr)
    made = world.appointment()
    with gate(world.engine, "EXECUTE save_ending") as before_the_write:
        cycle = Neighbour(lambda: world.run(trace=spans.item, tell=spans.hear, connections=1))
        before_the_write.wait_reached()
        world.execute(CONFIRMED, id=made.appointment)
        before_the_write.release()
        assert cycle.result().failed == 0
    assert world.status(made) == "Confirmed"
    span = the_only(kept)
    assert span.status.is_unset
    assert set(span.attributes or {}) == {"tenantId", "AppointmentId"}
