"""A cycle is struck at one point: what must hold at once, and after one clean cycle and drain."""

from dataclasses import replace
from uuid import UUID, uuid4

from app.report import CycleReport
from dev.servers.kafka import Kafka
from tests.crash.lane import Case, Lane, Struck
from tests.crash.nursery import Fate
from tests.crash.points import Point
from tests.crash.victim import KILL, NOTHING, Order
from tests.interleaving.invariants import broken
from tests.interleaving.rows import Rows
from tests.interleaving.stage import CLEAR
from tests.world import MINUTE

FAILED_BEFORE = """INSERT INTO calendar.expiry_failures
    (appointment_id, rule, first_failed_at, last_failed_at, last_run_id)
    VALUES (:id, 'mended since', now() - interval '1 hour', now() - interval '1 hour', 'earlier')"""


class CycleScene:
    """Each way that an item can go: released, expired, poison, and tried again after a failure.

    For several connections so many more that each goes on from one to the next.
    """

    def __init__(self, lane: Lane, connections: int) -> None:
        world = lane.world
        world.execute(CLEAR)
        self.poison = world.appointment(event_status="Completed", reminders=("Sent",)).appointment
        mended = world.appointment()
        world.execute(FAILED_BEFORE, id=mended.appointment)
        others = [world.appointment(), world.appointment(starts_in=30 * MINUTE)]
        others += [world.appointment() for _ in range(2 * (connections - 1))]
        self.healthy = {made.appointment for made in (mended, *others)}

    def violations(self, rows: Rows) -> list[str]:
        """C3: each cascade whole or untouched, with its pair or without a word."""
        told = [text for text in broken(rows) if str(self.poison) not in text]
        poison = rows.appointments[self.poison]
        untouched = (poison["status"], poison["version"]) == ("Pending", 1)
        return told if untouched and not rows.about(self.poison) else [*told, "C4: poison touched"]

    def expired(self, rows: Rows) -> set[UUID]:
        """Who has expired so far."""
        return {one for one in self.healthy if rows.appointments[one]["status"] == "Expired"}

    def after_a_clean_cycle(self, rows: Rows, report: CycleReport, left: int) -> list[str]:
        """C5: the next cycle finishes what the dead one left, and nothing else."""
        found = (report.outcome, report.expired, report.failed, report.skipped_locked)
        told = self.violations(rows)
        if found != ("completed", left, 1, 0):
            told.append(f"C5: the next cycle reports {found}, {left} were left")
        if self.expired(rows) != self.healthy or set(rows.failures) != {self.poison}:
            told.append(f"C5: unfinished: {self.healthy - self.expired(rows)}, {rows.failures}")
        return told


def points_of(lane: Lane, order: Order) -> list[Point]:
    """Those that one undisturbed cycle meets."""
    CycleScene(lane, order.connections)
    fate = lane.fork(replace(order, url=lane.url, run_id="recorder", strike=NOTHING))
    assert fate.error is None, fate.error
    return fate.points


def case(kafka: Kafka, order: Order) -> Case:
    """One point of a cycle with so many connections, struck the way the order says."""

    def strike(lane: Lane, at: Point) -> Struck:
        scene = CycleScene(lane, order.connections)
        run_id = str(uuid4())
        fate = lane.fork(replace(order, url=lane.url, run_id=run_id, at=at))
        seconds = lane.seconds_until_free()
        rows = lane.look()
        violations = [*scene.violations(rows), *lane.odd_runs(), *_told(fate, order, rows, run_id)]
        left = len(scene.healthy - scene.expired(rows))
        report = lane.world.run(connections=1)
        violations += scene.after_a_clean_cycle(lane.look(), report, left)
        drained = lane.drain(kafka)
        if (drained.outcome, drained.published) != ("completed", 2 * len(scene.healthy)):
            violations.append(f"O1: the drain reports {drained.outcome}, {drained.published} sent")
        return Struck(at, fate.struck, violations, seconds)

    return strike


def _told(fate: Fate, order: Order, rows: Rows, run_id: str) -> list[str]:
    """C5, C6: who lives to tell says how it ended, and exactly what it did."""
    if fate.error:
        return [fate.error]
    if order.strike == KILL:
        return [] if fate.status == -9 or not fate.struck else ["it survived SIGKILL"]
    assert fate.report
    mine = [row for row in rows.messages if row["correlation"] == run_id]
    found = (fate.report["outcome"], fate.report["ExpiredCount"])
    if found[0] in {"completed", "failed"} and found[1] == len(mine) / 2:
        return []
    return [f"C6: it reports {found}, and has written {len(mine)} messages"]
