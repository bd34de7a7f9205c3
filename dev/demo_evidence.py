"""What others saw of the demo: a plain consumer in Kafka, and Flower."""

import json
import sys
import time
import urllib.request
from collections.abc import Iterable

from app.domain.outbox import TOPICS
from dev.demo_sample import Booked
from dev.servers.consumer import Record, read_topics

_ALL = sys.maxsize  # of a given broker nobody knows how many others are there
_PATIENCE = (3.0, 10.0, 30.0)  # seconds to read; longer when a large broker needs it
_FLOWER_SECONDS = 15.0
_LOOK = 0.25


def consume(bootstrap: str, booked: Iterable[Booked], expected: int) -> list[Record]:
    """What lies in the topics about our appointments: all of it, should it be too much too."""
    ours = {str(identifier) for one in booked for identifier in (one.id, one.event_id)}
    found: list[Record] = []
    for seconds in _PATIENCE:
        records = read_topics(bootstrap, TOPICS, expected=_ALL, timeout=seconds)
        found = [record for record in records if record.key in ours]
        if len(found) >= expected:
            break
    return found


def flower_saw(address: str, run_id: str) -> str | None:
    """The state in which Flower shows a task, once it has ended there; None: not at all."""
    deadline = time.monotonic() + _FLOWER_SECONDS
    state = None
    while time.monotonic() < deadline and state not in {"SUCCESS", "FAILURE"}:
        try:
            with urllib.request.urlopen(  # noqa: S310 - our own loopback
                f"{address}/api/task/info/{run_id}", timeout=_FLOWER_SECONDS
            ) as answer:
                state = json.load(answer).get("state")
        except OSError:  # not up yet, or has not heard of it yet
            pass
        time.sleep(_LOOK)
    return state
