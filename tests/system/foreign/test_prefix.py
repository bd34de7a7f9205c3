"""A prefix for all keys, for a user who may use no other; and a foreign app's own prefix."""

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from dev.servers.valkey import Valkey
from tests.neighbour import wait_until
from tests.system.celery_process import CELERY, app, call, tick
from tests.system.conftest import Start, published
from tests.system.foreign.crm import ALONE, PAGE, Crm
from tests.world import World

TASK = "calendar.appointment_timeout"
THEIR_QUEUES = ("-n", "crm@%h", "-Q", f"celery,{TASK},calendar.outbox_publisher")
"""Of the very same names, so that only the prefix tells them apart."""


@pytest.fixture
def confined(environment: dict[str, str], valkey: Valkey) -> dict[str, str]:
    """Our app as a user whom the page's own line makes."""
    [rights] = re.findall(r"^ACL SETUSER .*$", PAGE.read_text(), re.MULTILINE)
    with Redis.from_url(valkey.url) as client:
        client.execute_command(*rights.split())
    url = valkey.url.replace("//", "//calendar:password@")
    return {**environment, "CELERY_BROKER_URL": url, "CELERY_BROKER_KEY_PREFIX": "calendar:"}


def said(environment: dict[str, str], *words: str) -> str:
    """What a command of ours prints, whatever it thinks of this environment."""
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False
    ).stdout


def keys(valkey: Valkey) -> set[str]:
    with Redis.from_url(valkey.url, decode_responses=True) as client:
        return set(client.scan_iter())


def test_e_under_a_prefix_all_works_and_nothing_else_is_touched(
    world: World, start: Start, valkey: Valkey, confined: dict[str, str], crm: Crm
) -> None:
    theirs = crm.start("worker", *THEIR_QUEUES)
    before = keys(valkey)
    worker = start("worker", **confined)
    beat = start("beat", **confined)
    appointment = world.appointment()
    call(TASK, confined)
    wait_until(lambda: world.status(appointment) == "Expired", "the cycle")
    wait_until(lambda: published(world) == 2, "the messages")
    assert "Cycles are being done." in app("health", "--live", environment=confined).stdout
    assert "✓ redis" in said(confined, sys.executable, "-m", "app", "doctor")
    reached = said(confined, str(CELERY), "-A", "tasks", "inspect", "ping")
    assert "celery@" in reached
    assert "celerybeat@" in reached
    assert "crm@" not in reached
    assert {key for key in keys(valkey) - before if not key.startswith("calendar:")} == set()
    assert "eceived" not in theirs.text
    for process in (worker, beat):
        assert "NoPermission" not in process.text


def test_e_a_foreign_app_may_have_the_prefix_and_ours_none(
    world: World, start: Start, valkey: Valkey, environment: dict[str, str], tmp_path: Path
) -> None:
    more = 'app.conf.broker_transport_options = {"global_keyprefix": "crm:"}'
    crm = Crm(tmp_path / "prefixed", valkey.url, ALONE, more)
    crm.sender.conf.broker_transport_options = {"global_keyprefix": "crm:"}
    with closing(crm):
        theirs = crm.start("worker", *THEIR_QUEUES)
        start("worker")
        crm.send("crm.mail", 1)
        appointment = world.appointment()
        tick(TASK, environment)
        wait_until(lambda: world.status(appointment) == "Expired", "our cycle")
        wait_until(lambda: crm.diary() == ["mail 1"], "their task")
        assert "calendar.appointment_timeout[" not in theirs.text
