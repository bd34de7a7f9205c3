"""Flower as a person sees it, in a real browser after real ticks (section 1; C6; S1)."""

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from selenium.webdriver import Chrome
from sqlalchemy import make_url

from dev.processes import ROOT
from dev.servers.port import free_port
from dev.servers.valkey import Valkey
from tests.neighbour import holding, wait_until
from tests.system.browser import browser
from tests.system.celery_process import CeleryProcess, call
from tests.system.conftest import Start
from tests.system.flower_page import Flower, Shown
from tests.system.hold import Hold
from tests.world import MINUTE, World

TASK = "calendar.appointment_timeout"
PUBLISHER = "calendar.outbox_publisher"
WORKER = "worker@calendar"
SECRETS = REDIS_SECRET, DATABASE_SECRET, FLOWER_SECRET = [uuid4().hex for _ in range(3)]
LOGIN = f"operator:{FLOWER_SECRET}"
PICTURE = os.environ.get("PICTURE")
"""Where to keep the page that the test has seen: `make picture`."""


@pytest.fixture
def environment(environment: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """The stack with a password wherever there can be one, and with patience for held items."""
    database = make_url(environment["DATABASE_URL"]).set(
        password=DATABASE_SECRET, query={"options": "-c statement_timeout=60s"}
    )
    with Valkey(tmp_path / "valkey", password=REDIS_SECRET) as guarded:
        yield {
            **environment,
            "CELERY_BROKER_URL": guarded.url,
            "DATABASE_URL": database.render_as_string(hide_password=False),
        }


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Chrome]:
    """A browser that has never been anywhere."""
    with browser(tmp_path / "profile") as opened:
        yield opened


@pytest.fixture
def flower(window: Chrome, start: Start) -> Flower:
    """`celery -A tasks flower` at the root, with its password as docker-compose.yml sets it."""
    port = free_port()
    options = (f"--port={port}", "--address=127.0.0.1")
    start("flower", *options, around=("env", "-C", str(ROOT)), FLOWER_BASIC_AUTH=LOGIN)
    return Flower(window, port, LOGIN)


@pytest.fixture
def worker(flower: Flower, start: Start) -> CeleryProcess:
    """A worker whose life Flower has seen from its beginning."""
    return start("worker", "-n", WORKER)


def outcomes(world: World) -> dict[str, Any]:
    """The cycles that ended, by their run ids."""
    rows = world.all("SELECT * FROM calendar.job_runs WHERE job = 'appointment_timeout'")
    return {row["run_id"]: row["outcome"] for row in rows if row["finished_at"]}


def beat_ticks(world: World, start: Start) -> str:
    """A tick of the beat: three expire, one is held by a rival; the run's id."""
    world.appointment()
    world.appointment()
    world.appointment(starts_in=30 * MINUTE)
    rival = world.appointment()
    lock = "SELECT FROM calendar.appointments WHERE id = :id FOR UPDATE"
    with holding(world.engine, lock, id=rival.appointment):
        beat = start("beat")
        wait_until(lambda: outcomes(world), "the beat's first cycle")
        beat.process.kill()
    [run] = outcomes(world)
    return str(run)


def tick_during_a_cycle(world: World, environment: dict[str, str]) -> tuple[str, str]:
    """A cycle, and the tick that found it at work and was skipped (S1); their ids."""
    hold = Hold(world)
    cycle = call(TASK, environment)
    hold.wait_reached()
    skipped = call(TASK, environment)
    wait_until(lambda: outcomes(world).get(skipped) == "skipped", "the skipped tick")
    hold.release()
    wait_until(lambda: outcomes(world).get(cycle) == "completed", "the end of the held cycle")
    return cycle, skipped


def stale_tick(worker: CeleryProcess, environment: dict[str, str]) -> str:
    """A tick that is older than its interval when it arrives (S1); its id."""
    expired = call(TASK, environment, "--expires", "0.001")
    wait_until(lambda: f"Discarding revoked task: {TASK}[{expired}]" in worker.text, "the discard")
    return expired


def failing_tick(world: World, worker: CeleryProcess, environment: dict[str, str]) -> str:
    """A tick whose cycle fails; its id."""
    world.execute("UPDATE calendar.schema_level SET oldest_program = 99")
    failed = call(TASK, environment)
    wait_until(lambda: f"[{failed}] raised expected" in worker.text, "the failure")
    return failed


def test_c6_s1_flower_shows_the_figures_and_tells_a_failure_from_a_skipped_or_expired_tick(
    world: World, worker: CeleryProcess, start: Start, flower: Flower, environment: dict[str, str]
) -> None:
    by_beat = beat_ticks(world, start)
    cycle, skipped = tick_during_a_cycle(world, environment)
    expired = stale_tick(worker, environment)
    failed = failing_tick(world, worker, environment)
    wait_until(lambda: flower.tasks().get(failed, Shown("", "", "")).state == "FAILURE", "the last")
    shown = flower.tasks()
    if PICTURE:
        flower.photograph(ROOT / PICTURE)
    ours = {run: line.state for run, line in shown.items() if line.name == TASK}
    assert ours == {
        by_beat: "SUCCESS",
        cycle: "SUCCESS",
        skipped: "SUCCESS",
        expired: "REVOKED",
        failed: "FAILURE",
    }
    assert {line.state for line in shown.values() if line.name == PUBLISHER} == {"SUCCESS"}
    assert "3 expired, 2 freed, 1 lapsed, 1 locked" in shown[by_beat].result
    assert "1 expired, 1 freed, 0 lapsed, 0 locked" in shown[cycle].result
    assert "0 expired, 0 freed, 0 lapsed, 0 locked" in shown[skipped].result
    assert "The schema is too new" in shown[failed].result
    for run in (by_beat, cycle, skipped):
        kept = world.one("SELECT result FROM calendar.job_runs WHERE run_id = :id", id=run)
        flower.open(f"task/{run}", "#task-page")
        assert len(kept["result"]) == 5
        for figure, value in kept["result"].items():
            assert f"'{figure}': {value}" in flower.text("#task-page")


def test_flower_shows_the_queues_and_no_secret_and_nothing_without_its_password(
    world: World, worker: CeleryProcess, flower: Flower, environment: dict[str, str]
) -> None:
    world.appointment()
    run = call(TASK, environment)
    wait_until(lambda: run in flower.tasks(), "the task")
    pages = [flower.window.page_source]
    flower.open(f"worker/{WORKER}#tab-queues", "#worker-queues")
    assert flower.first_column("#worker-queues") == [TASK, PUBLISHER]
    pages.append(flower.window.page_source)
    flower.open("broker", "#queue-table td")
    assert flower.first_column("#queue-table") == [TASK, PUBLISHER]
    assert flower.text(".broker-url").startswith("redis://:**@")
    pages.append(flower.window.page_source)
    for path, until in (("", "#workers-table td"), (f"task/{run}", "#task-page")):
        flower.open(path, until)
        pages.append(flower.window.page_source)
    assert all(secret not in page for page in pages for secret in SECRETS)
    for path in ("", "tasks", "broker", f"worker/{WORKER}", f"task/{run}", "api/tasks"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{flower.address}/{path}")  # noqa: S310 - our own loopback
