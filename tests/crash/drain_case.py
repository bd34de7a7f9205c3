"""A drain is struck at one point: what must hold at once, after a clean drain, and in Kafka."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from app.domain.outbox import TOPICS
from dev.servers.consumer import Record
from dev.servers.kafka import Kafka
from tests.crash.lane import Case, Lane, Struck
from tests.crash.nursery import Fate
from tests.crash.points import Point
from tests.crash.victim import KILL, NOTHING, Order
from tests.interleaving.stage import CLEAR
from tests.publish.outbox_world import everything_on, first_occurrences, message_id

PARTITIONS = 3
Rows = Mapping[UUID, Mapping[str, Any]]


class DrainScene:
    """Two messages of one key, two of others on both topics, and one that is no valid record."""

    def __init__(self, lane: Lane) -> None:
        world = lane.world
        world.execute(CLEAR)
        a, b, c = (str(uuid4()) for _ in range(3))
        places = [(a, 0), (b, 0), (a, 0), (c, 1)]
        self.good = [
            world.add(key, topic=TOPICS[topic], payload=f'{{"for": "{key}", "n": {number}}}')
            for number, (key, topic) in enumerate(places)
        ]
        self.bad = world.add(headers='["no headers"]')

    def marked(self, lane: Lane) -> int:
        """How many are marked published."""
        return len(self.good) + 1 - len(lane.world.unsent())


def points_of(lane: Lane, kafka: Kafka, order: Order) -> list[Point]:
    """Those that one undisturbed drain meets."""
    DrainScene(lane)
    fate = lane.fork(
        replace(order, url=lane.url, run_id="recorder", bootstrap=kafka.bootstrap, strike=NOTHING)
    )
    assert fate.error is None, fate.error
    lane.drain(kafka)
    return fate.points


def case(kafka: Kafka, order: Order) -> Case:
    """One point of a drain, struck the way the order says."""

    def strike(lane: Lane, at: Point) -> Struck:
        scene = DrainScene(lane)
        run_id = str(uuid4())
        fate = lane.fork(
            replace(order, url=lane.url, run_id=run_id, at=at, bootstrap=kafka.bootstrap)
        )
        seconds = lane.seconds_until_free()
        marked = scene.marked(lane)
        violations = [*lane.odd_runs(), *_told(fate, order, marked)]
        report = lane.drain(kafka)
        if (report.outcome, report.published) != ("completed", len(scene.good) - marked):
            violations.append(f"O2: the next drain reports {report}, {marked} were marked before")
        if lane.world.unsent() != [scene.bad]:
            violations.append(f"O2: unsent in the end: {lane.world.unsent()}")
        return Struck(at, fate.struck, violations, seconds)

    return strike


def _told(fate: Fate, order: Order, marked: int) -> list[str]:
    if fate.error:
        return [fate.error]
    if order.strike == KILL:
        return [] if fate.status == -9 or not fate.struck else ["it survived SIGKILL"]
    assert fate.report
    found = (fate.report["outcome"], fate.report["PublishedCount"])
    if found[0] in {"completed", "failed"} and found[1] == marked:
        return []
    return [f"O2: it reports {found}, and {marked} are marked"]


def in_kafka(kafka: Kafka, lanes: Sequence[Lane]) -> list[str]:
    """O2, O3, O6: each message at least once, its copies identical, a key's first ones in order."""
    rows: dict[UUID, dict[str, Any]] = {}
    for lane in lanes:
        rows |= lane.sent
    records = [
        record for topic in TOPICS for record in everything_on(kafka.bootstrap, topic, PARTITIONS)
    ]
    told = [f"O2: lost: {one}" for one in rows.keys() - set(map(message_id, records))]
    told += [f"O2: not as it was written: {r}" for r in records if not _as_written(r, rows)]
    lines: dict[tuple[str, str], list[UUID]] = {}
    for one, row in rows.items():
        lines.setdefault((row["topic"], row["key"]), []).append(one)
    for (topic, key), line in lines.items():
        found = first_occurrences([r for r in records if r.topic == topic and r.key == key], key)
        if [one for one in found if one in line] != line:
            told.append(f"O3: of key {key}: wanted {line}, found {found}")
    return told


def _as_written(record: Record, rows: Rows) -> bool:
    row = rows.get(message_id(record))
    if row is None:
        return False
    return (record.topic, record.key, record.value.decode()) == (
        row["topic"],
        row["key"],
        row["payload"],
    )
