"""Our own app beside a foreign one on one Redis and one database number."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection
from redis import Redis

from dev.servers.valkey import Valkey
from tests.neighbour import wait_until
from tests.system.celery_process import tick
from tests.system.conftest import Start
from tests.system.foreign.crm import Crm
from tests.world import World

TASK = "calendar.appointment_timeout"
CONFIG = Path(__file__).parents[3] / "celeryconfig.py"


def test_neither_takes_discards_or_delays_the_others_tasks(
    world: World, start: Start, valkey: Valkey, environment: dict[str, str], crm: Crm
) -> None:
    """Whichever works alone leaves the other's messages where they are; together all is done."""
    waiting = Redis.from_url(valkey.url)
    for number in range(5):
        crm.send("crm.mail", number)
    made = world.appointment()
    ours = start("worker", "-n", "calendar@%h")
    tick(TASK, environment)
    wait_until(lambda: world.status(made) == "Expired", "our cycle")
    assert waiting.llen("celery") == 5
    theirs = crm.start("worker", "-n", "crm@%h")
    wait_until(lambda: len(crm.diary()) == 5, "their tasks beside our worker")
    told = crm.sender.control.add_consumer("crm.later", reply=True, timeout=3) or []
    assert [name.partition("@")[0] for reply in told for name in reply] == ["crm"]
    assert "calendar" in overheard(crm)
    ours.process.stop()
    tick(TASK, environment)
    crm.send("crm.mail", 5)
    wait_until(lambda: len(crm.diary()) == 6, "their task, while a tick waits")
    assert waiting.llen(TASK) == 1
    assert sorted(crm.diary()) == [f"mail {number}" for number in range(6)]
    for worker in (ours, theirs):
        assert "unregistered" not in worker.text


def overheard(crm: Crm) -> set[str]:
    """Whose events a Flower of theirs gets: the nodes that are heard of until ours is."""
    heard: set[str] = set()
    with crm.sender.connection_for_read() as connection:

        def beats(event: dict[str, Any]) -> None:
            heard.add(event["hostname"].partition("@")[0])
            receiver.should_stop = "calendar" in heard

        receiver = crm.sender.events.Receiver(connection, handlers={"worker-heartbeat": beats})
        receiver.capture(limit=None, timeout=30, wakeup=False)
    return heard


def test_what_a_long_task_of_theirs_has_not_acknowledged_is_not_ours_to_give_back(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be run twice: every worker of a database looks for what has been out for long."""
    monkeypatch.setenv("CELERY_BROKER_URL", valkey.url)
    options: dict[str, Any] = runpy.run_path(str(CONFIG))["broker_transport_options"]
    with (
        Connection(valkey.url) as theirs,
        Connection(valkey.url, transport_options={**options, "visibility_timeout": 0}) as ours,
    ):
        queue = theirs.SimpleQueue("celery")
        queue.put({"a": "long task"})
        queue.get(timeout=30)
        with Connection(valkey.url, transport_options={"visibility_timeout": 0}) as likewise:
            restored = [give_back(connection, valkey) for connection in (ours, likewise)]
    assert restored == [0, 1]


def give_back(connection: Connection, valkey: Valkey) -> int:
    """How many wait in their queue once this one has looked for what has been out for long."""
    channel: Any = connection.default_channel
    channel.qos.restore_visible(interval=1)
    return int(Redis.from_url(valkey.url).llen("celery"))
