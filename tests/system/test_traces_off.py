"""Section 8: off, nothing at all; a wrong value or a missing package is off, with one sentence."""

import signal

import pytest

from tests.neighbour import wait_until
from tests.system.celery_process import tick
from tests.system.collector import SENDER, Collector
from tests.system.conftest import Start, published
from tests.world import World

TASK = "calendar.appointment_timeout"

OFF = {
    "without a word": {},
    "disabled": {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"},
    "no exporter": {"OTEL_TRACES_EXPORTER": "none"},
}


@pytest.mark.parametrize("how", OFF)
def test_off_nothing_is_imported_and_nothing_sent(
    world: World, start: Start, environment: dict[str, str], collecting: Collector, how: str
) -> None:
    """The Redis client imports OpenTelemetry's metrics where they are installed; we, nothing."""
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": collecting.url} if OFF[how] else {}
    worker = start("worker", PYTHONPROFILEIMPORTTIME="1", **endpoint, **OFF[how])
    made = world.appointment()
    run_id = tick(TASK, environment, headers={"traceparent": f"{SENDER}-01"})
    wait_until(lambda: published(world) == 2, "both messages")
    worker.signal(signal.SIGTERM)
    worker.wait_exit()
    imported = {line.rpartition("|")[2].strip() for line in worker.text.splitlines()}
    assert "app.telemetry.traces" in imported
    for one in ("app.telemetry.otlp", "app.telemetry.spans", "opentelemetry.sdk.trace", "requests"):
        assert one not in imported
    assert not collecting.asked.is_set()
    for row in world.messages(made):
        _, trace, _, flags = row["headers"]["traceparent"].split("-")
        assert (trace, flags) == (run_id.replace("-", ""), "00")
    assert all("trace_id" not in line for line in worker.lines("appointment expired"))


WRONG = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": ("collector:4318", "it must begin with http:// or https://."),
    "OTEL_EXPORTER_OTLP_PROTOCOL": ("grpc", "input should be 'http/protobuf'."),
    "OTEL_TRACES_EXPORTER": ("zipkin", "input should be 'otlp' or 'none'."),
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": ("many", "must be a non-negative integer but got many"),
    "OTEL_BSP_MAX_QUEUE_SIZE": ("0", "max_queue_size must be a positive integer."),
}


@pytest.mark.parametrize("variable", WRONG)
def test_a_wrong_value_is_one_sentence_and_the_work_goes_on_without_traces(
    world: World, start: Start, environment: dict[str, str], collecting: Collector, variable: str
) -> None:
    value, sentence = WRONG[variable]
    worker = start("worker", **{"OTEL_EXPORTER_OTLP_ENDPOINT": collecting.url, variable: value})
    world.appointment()
    tick(TASK, environment)
    wait_until(lambda: published(world) == 2, "both messages")
    [told] = worker.lines("traces are off")
    assert told["detail"].endswith(sentence)
    assert "Traceback" not in worker.text
    assert not collecting.asked.is_set()


def test_without_opentelemetry_installed_one_sentence_says_how_to_get_it(
    world: World,
    start: Start,
    environment: dict[str, str],
    collecting: Collector,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("without")
    (place / "opentelemetry.py").write_text("")  # stands in front of the installed one
    worker = start("worker", OTEL_EXPORTER_OTLP_ENDPOINT=collecting.url, PYTHONPATH=str(place))
    world.appointment()
    tick(TASK, environment)
    wait_until(lambda: published(world) == 2, "both messages")
    [told] = worker.lines("traces are off")
    assert told["detail"] == "Install appointment-timeout[tracing] for them."
