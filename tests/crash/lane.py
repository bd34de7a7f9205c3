"""A lane: a database, a nursery and a world of its own. Several lanes work side by side."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import Any
from uuid import UUID

from sqlalchemy import text

from app.kafka import Sender
from app.report import DrainReport
from dev.servers.kafka import Kafka
from tests.crash.nursery import Fate, Nursery
from tests.crash.points import Point
from tests.crash.victim import Order
from tests.interleaving.rows import Rows, look
from tests.publish.outbox_world import OutboxWorld, sender_to

DEADLINE = 60.0
"""Seconds until a row that nobody gets is stuck; what it really takes is stated, not judged."""
TABLES = ("appointments", "availability_slots", "calendar_events", "event_reminders")
_FREE = " AND ".join(
    f"""(SELECT count(*) FROM (SELECT FROM calendar.{table} FOR UPDATE SKIP LOCKED) free)
        = (SELECT count(*) FROM calendar.{table})"""
    for table in (*TABLES, "outbox_messages", "expiry_failures", "job_runs")
)


@dataclass
class Lane:
    """One of several that strike points side by side."""

    name: str
    world: OutboxWorld
    nursery: Nursery
    sender: Sender | None = None
    sent: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    """What must be in Kafka, in the order in which it was written."""

    def fork(self, order: Order) -> Fate:
        """A victim on this lane's database."""
        return self.nursery.fork(order)

    @property
    def url(self) -> str:
        """Where its database is."""
        url = self.world.engine.url.set(drivername="postgresql")
        return url.render_as_string(hide_password=False)

    def look(self) -> Rows:
        """All that is committed."""
        with self.world.engine.connect() as connection:
            return look(connection)

    def seconds_until_free(self) -> float:
        """How long it takes until every row can be locked by anybody."""
        patience, start = Event(), time.monotonic()
        with self.world.engine.connect() as connection:
            while True:
                free = connection.execute(text(f"SELECT {_FREE}")).scalar()
                connection.rollback()
                waited = time.monotonic() - start
                if free:
                    return waited
                assert waited < DEADLINE, "somebody still holds what the dead one held"
                patience.wait(0.005)

    def drain(self, kafka: Kafka) -> DrainReport:
        """A drain that nothing strikes; what it and its predecessors sent is noted.

        It follows no cycle: the record of a killed one looks as if it were still under way.
        """
        self.sender = self.sender or sender_to(kafka.bootstrap)
        report = self.world.drain(self.sender, cycle_seconds=0)
        for row in self.world.all(
            """SELECT message_id, topic, key, payload::text AS payload
            FROM calendar.outbox_messages WHERE published_at IS NOT NULL ORDER BY id"""
        ):
            self.sent[row["message_id"]] = row
        return report

    def odd_runs(self) -> list[str]:
        """C6: a run is either over, with its outcome and figures, or it is not."""
        rows = self.world.all(
            """SELECT run_id FROM calendar.job_runs
            WHERE num_nulls(finished_at, outcome, result) NOT IN (0, 3)
               OR finished_at < started_at OR (outcome = 'failed') <> (detail IS NOT NULL)"""
        )
        return [f"C6: odd record of run {row['run_id']}" for row in rows]

    def close(self) -> None:
        """Its sender only: database and nursery belong to the session."""
        if self.sender is not None:
            self.sender.close()
            self.sender = None
        self.sent.clear()


@dataclass(frozen=True)
class Struck:
    """One point, struck if it was met again: what broke a rule, how long rows were not free."""

    point: Point
    met: bool
    violations: list[str]
    seconds: float


GOES = 10
Case = Callable[[Lane, Point], Struck]


def strike(lanes: Sequence[Lane], case: Case, points: Sequence[Point]) -> list[Struck]:
    """These points, shared out among the lanes."""

    def work(number: int) -> list[Struck]:
        return [_until_met(case, lanes[number], at) for at in points[number :: len(lanes)]]

    with ThreadPoolExecutor(len(lanes)) as threads:
        return [struck for done in threads.map(work, range(len(lanes))) for struck in done]


def _until_met(case: Case, lane: Lane, at: Point) -> Struck:
    """Several connections take turns as it comes: another go may meet what this one did not."""
    struck = case(lane, at)
    for _ in range(GOES - 1):
        if struck.met or struck.violations:
            break
        struck = case(lane, at)
    return struck


def complaints(struck: Sequence[Struck]) -> str:
    """What broke a rule, under the point at which it did; and places that were never struck.

    A place may be met less often than before, so not each of its points has to be.
    """
    told = [f"{one.point}:\n  " + "\n  ".join(one.violations) for one in struck if one.violations]
    never = {one.point.place for one in struck} - {one.point.place for one in struck if one.met}
    return "\n".join([*told, *(f"never met again: {place}" for place in sorted(never))])


def told(struck: Sequence[Struck]) -> str:
    """How many points, and the longest time until all rows were free."""
    met = [one for one in struck if one.met]
    longest = max(one.seconds for one in met)
    return f"{len(met)} points; all rows free after at most {longest:.3f} s"
