"""Random histories of everything that may happen to bookings: the rules, and how they are drawn."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import cast
from uuid import UUID, uuid4

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from app import operations
from app.domain.appointment import Appointment
from app.kafka import Sender
from app.publish import drain
from app.report import DrainOptions
from app.store import bookings
from tests.interleaving.chronicle import Chronicle
from tests.interleaving.invariants import ACTIVE
from tests.interleaving.rows import Rows
from tests.world import HOUR, MINUTE, World

STEPS = 60
Phases = tuple[Phase, ...]
MILLISECOND = timedelta(milliseconds=1)
PLACE = st.integers(0, 10**6)
REMIND = """INSERT INTO calendar.event_reminders (calendar_event_id, remind_at, updated_at)
    VALUES (:event, :now, :now)"""
DEADLINE = "UPDATE calendar.appointments SET pending_expires_at = :past WHERE id = :id"
START = "UPDATE calendar.availability_slots SET start_at = :a, end_at = :b WHERE id = :id"
EVENT_STATUS = "UPDATE calendar.calendar_events SET status = :status WHERE id = :id"


def play(
    world: World, sender: Sender, keep: Callable[[Rows], None], examples: int, phases: Phases
) -> None:
    """So many histories; AssertionError with the shortest one that breaks a rule."""
    run_state_machine_as_test(
        cast("type[History]", lambda: History(world, sender, keep)),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            phases=phases,
            deadline=None,
            derandomize="CI" in os.environ,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def any_made(chronicle: Chronicle) -> bool:
    """Whether there is an appointment to act on."""
    return bool(chronicle.made)


class History(Chronicle):
    """Every rule acts on the product and on the model."""

    @initialize()
    def four_slots_two_booked(self) -> None:
        for auto_confirm in (False, False, False, True):
            self.offer(auto_confirm=auto_confirm)
        for place in range(2):
            self.book(place)

    @rule(auto_confirm=st.booleans())
    @precondition(lambda self: len(self.model.rows.slots) < 8)
    def offer(self, *, auto_confirm: bool) -> None:
        slot_id, start = uuid4(), self.world.now() + 72 * HOUR
        with self.world.engine.begin() as connection:
            bookings.offer_slot(
                connection,
                slot_id,
                tenant_id=uuid4(),
                agent_id=uuid4(),
                start_at=start,
                end_at=start + HOUR,
                min_lead_time_minutes=60,
                auto_confirm=auto_confirm,
            )
        self.model.rows.slots[slot_id] = self.look().slots[slot_id]

    @rule(place=PLACE)
    def book(self, place: int) -> None:
        slot, now, investor = self.slot(place), self.world.now(), uuid4()
        made: list[Appointment] = []
        self.agree(
            act=lambda: made.append(operations.book(self.world.engine, slot, investor, now)),
            law=lambda: self.model.book(slot, ids_of(made, slot), investor, now),
        )
        self.made += [one.id for one in made]

    @rule(place=PLACE)
    @precondition(any_made)
    def confirm(self, place: int) -> None:
        one, now = self.one(place)["id"], self.world.now()
        self.agree(
            act=lambda: operations.confirm(self.world.engine, one, now),
            law=lambda: self.model.confirm(one, now),
        )

    @rule(place=PLACE)
    @precondition(any_made)
    def decline(self, place: int) -> None:
        one, now, why = self.one(place)["id"], self.world.now(), str(uuid4())
        self.agree(
            act=lambda: operations.decline(self.world.engine, one, now, why),
            law=lambda: self.model.decline(one, now, why),
        )

    @rule(place=PLACE, who=st.sampled_from(["investor_id", "agent_id", "tenant_id"]))
    @precondition(any_made)
    def cancel(self, place: int, who: str) -> None:
        row, now, why = self.one(place), self.world.now(), str(uuid4())
        self.agree(
            act=lambda: operations.cancel(self.world.engine, row["id"], row[who], now, why),
            law=lambda: self.model.cancel(row["id"], row[who], now, why),
        )

    @rule(place=PLACE)
    @precondition(any_made)
    def remind(self, place: int) -> None:
        event, now = self.one(place)["calendar_event_id"], self.world.now()
        self.agree(
            act=lambda: self.world.execute(REMIND, event=event, now=now),
            law=lambda: self.model.remind(event, now, now),
        )

    def deadline_passes(self, place: int) -> None:
        row = self.one(place)
        if row["pending_expires_at"] is not None:
            row["pending_expires_at"] = self.world.now() - (1 + place) * MILLISECOND
            self.world.execute(DEADLINE, past=row["pending_expires_at"], id=row["id"])

    @rule(place=PLACE)
    def lead_time_begins(self, place: int) -> None:
        if place % 3:  # not too often: nobody can book that slot any more
            return
        slot, start = self.slot(place // 3), self.world.now() + 30 * MINUTE
        self.model.rows.slots[slot].update(start_at=start, end_at=start + HOUR)
        self.world.execute(START, a=start, b=start + HOUR, id=slot)

    @rule(place=PLACE)
    @precondition(any_made)
    def spoil_or_mend(self, place: int) -> None:
        """C4: the event of an active appointment is no longer, or again, as a cascade needs it."""
        row = self.one(place)
        if row["status"] in ACTIVE:
            event = self.model.rows.events[row["calendar_event_id"]]
            event["status"] = "Scheduled" if row["id"] in self.spoiled else "Completed"
            self.spoiled ^= {row["id"]}
            self.world.execute(EVENT_STATUS, status=event["status"], id=event["id"])

    @rule(
        batch=st.sampled_from([1, 2, 200]),
        connections=st.sampled_from([1, 3]),
        passed=st.lists(PLACE, max_size=4),
    )
    def tick(self, batch: int, connections: int, passed: list[int]) -> None:
        """Some deadlines pass, then a cycle comes by."""
        for place in passed if self.made else ():
            self.deadline_passes(place)
        if self.spoiled or self.model.rows.failures:
            batch = 200  # who is tried within a smaller bound is tests/cycle/test_claiming.py
        report = self.world.run(batch_size=batch, connections=connections)
        assert report.as_of is not None
        due = self.model.overdue(report.as_of)
        poison = [row for row in due if not self.model.lawful(row)]
        healthy = [row for row in due if row not in poison][:batch]
        for row in poison:
            self.model.fail(row["id"])
        for row in healthy:
            self.model.expire(row["id"], report.as_of, report.run_id)
        freed = [self.model.rows.slots[row["slot_id"]]["status"] for row in healthy]
        assert (report.outcome, report.failed) == ("completed", len(poison))
        assert report.released == freed.count("Available")
        assert report.slots_expired == freed.count("Expired")
        assert report.skipped_locked == 0

    @rule(batch=st.sampled_from([1, 3, 1000]))
    def publish(self, batch: int) -> None:
        waiting = [row for row in self.model.rows.messages if not row["published"]]
        options = DrainOptions(batch_size=batch)
        report = drain(self.world.engine, self.sender, options, str(uuid4()))
        assert (report.outcome, report.published, report.refused) == ("completed", len(waiting), 0)
        for row in waiting:
            row["published"] = True


def ids_of(made: list[Appointment], unused: UUID) -> tuple[UUID, UUID]:
    """The ids that the product has chosen for a new booking; any when it was refused."""
    return (made[0].id, made[0].calendar_event_id) if made else (unused, unused)
