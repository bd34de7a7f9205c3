"""What anybody can push onto the queues: refused, told, and the worker goes on (JSON only)."""

import base64
import json
import pickle
import uuid
from typing import Any

import pytest
import redis
from kombu import Connection

from dev.servers.valkey import Valkey
from tasks.refusal import Transport
from tests.neighbour import wait_until
from tests.system.celery_process import tick
from tests.system.conftest import Start
from tests.world import World

TASK = "calendar.appointment_timeout"


class Exploit:
    """Unpickling it would leave a trace in the database of whoever did."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, ("/tmp/unpickled-by-the-worker", "w"))  # noqa: S108


def envelope(body: bytes, content_type: str, task: str = TASK, **headers: object) -> bytes:
    """A message as kombu's Redis transport spells it."""
    task_id = str(uuid.uuid4())
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-encoding": "utf-8" if "json" in content_type else "binary",
            "content-type": content_type,
            "headers": {"lang": "py", "task": task, "id": task_id, "root_id": task_id, **headers},
            "properties": {
                "correlation_id": task_id,
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": TASK},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": str(uuid.uuid4()),
            },
        }
    ).encode()


NOTHING = json.dumps([[], {}, {}]).encode()
HOSTILE: dict[str, bytes] = {
    "pickled": envelope(pickle.dumps(([Exploit()], {}, {})), "application/x-python-serialize"),
    "yaml": envelope(b"!!python/object/apply:os.getpid []", "application/x-yaml"),
    "an unknown task": envelope(NOTHING, "application/json", task="os.system"),
    "no task at all": envelope(NOTHING, "application/json", task=""),
    "a body that is no JSON": envelope(b"{'", "application/json"),
    "a body of another shape": envelope(b"42", "application/json"),
    "an oversized argument": envelope(
        json.dumps([["x" * 5_000_000], {}, {}]).encode(), "application/json"
    ),
    "an impossible expiry": envelope(NOTHING, "application/json", expires="soon"),
    "an impossible eta": envelope(NOTHING, "application/json", eta="never"),
    "no envelope": b"{}",
    "no JSON": b"\x80\x04garbage",
    "an empty string": b"",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_message_is_refused_and_the_worker_lives(
    world: World, start: Start, valkey: Valkey, environment: dict[str, str], what: str
) -> None:
    worker = start("worker")
    made = world.appointment()
    queue = redis.Redis.from_url(valkey.url)
    queue.lpush(TASK, HOSTILE[what])
    tick(TASK, environment)
    wait_until(
        lambda: world.status(made) == "Expired" or not worker.process.running,
        f"the tick behind {what}",
    )
    assert worker.process.running, worker.text[-2000:]
    assert world.status(made) == "Expired"
    wait_until(lambda: queue.llen(TASK) == 0, "an empty queue")
    assert len(world.all("SELECT FROM calendar.job_runs WHERE job = 'appointment_timeout'")) == 1


def test_a_channel_that_outlives_its_connection_tells_a_lost_connection(valkey: Valkey) -> None:
    """It gives back what it had taken; any other error the worker would take for the end."""
    with Connection(valkey.url, transport=Transport) as connection:
        queue = connection.SimpleQueue("taken")
        queue.put({})
        queue.get(timeout=30)  # and it is not acknowledged
        valkey.stop()
        connection.transport.client = None  # as kombu leaves it when it has closed the connection
        channel: Any = connection.default_channel
        with pytest.raises(connection.connection_errors, match="broker is closed"):
            channel.close()
