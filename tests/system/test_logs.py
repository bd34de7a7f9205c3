"""Every line is one JSON document, so that a collector needs no second thought (section 8)."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.processes import ROOT
from dev.servers.port import free_port
from dev.servers.process import ServerProcess
from tests.neighbour import wait_until
from tests.system.celery_process import CELERY, tick
from tests.world import World

TASK = "calendar.appointment_timeout"
PAST_ALL_LOGGING = {"", "worker: Warm shutdown (MainProcess)"}
READY = {"worker": " ready.", "beat": "beat: Starting", "flower": "Connected to"}


@pytest.fixture
def quiet(environment: dict[str, str], tmp_path: Path) -> Iterator[dict[str, ServerProcess]]:
    """`celery -q -A tasks worker`, `beat` and `flower` at the root."""
    with ExitStack() as running:
        started = {}
        for name, ready in READY.items():
            options = [f"--port={free_port()}"] if name == "flower" else []
            process = ServerProcess(
                name,
                ["env", "-C", ROOT, CELERY, "-q", "-A", "tasks", name, *options],
                log=tmp_path / f"{name}.log",
                environment=environment,
                grace=30,
            )
            running.callback(process.kill)
            process.wait_ready(lambda log=process.log, ready=ready: ready in log.read_text(), 60)  # type: ignore[misc]
            started[name] = process
        yield started


def test_every_line_of_worker_beat_and_flower_is_json_from_the_first_to_the_last(
    world: World, quiet: dict[str, ServerProcess], environment: dict[str, str]
) -> None:
    made, poison = world.appointment(), world.appointment(slot_status="Available")
    run_id = tick(TASK, environment)
    log = quiet["worker"].log
    wait_until(lambda: str(made.appointment) in log.read_text(), "the expiry")
    wait_until(lambda: str(poison.appointment) in log.read_text(), "the failed item")
    told = [json.loads(line) for line in log.read_text().splitlines() if "AppointmentId" in line]
    assert {line["runId"] for line in told} == {run_id}  # bound once, on every lane
    for process in quiet.values():
        process.stop()
        lines = process.log.read_text().splitlines()
        assert lines
        for line in lines:
            assert line in PAST_ALL_LOGGING or isinstance(json.loads(line)["event"], str), line
