"""What a cycle claims and passes over (C2, C6, S3): locks of others, lost updates, starvation."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import Engine

from app import facts, operations
from app.domain.appointment import Appointment
from app.domain.law import Refusal
from tests.gate import gate
from tests.neighbour import Neighbour, holding, wait_for_a_waiter
from tests.world import HOUR, MINUTE, Made, World

LOCKS = {
    "appointment": "SELECT FROM calendar.appointments WHERE id = :appointment FOR UPDATE",
    "slot": "SELECT FROM calendar.availability_slots WHERE id = :slot FOR UPDATE",
    "event": "SELECT FROM calendar.calendar_events WHERE id = :event FOR UPDATE",
    "reminder": """SELECT FROM calendar.event_reminders WHERE calendar_event_id = :event
        AND status = 'Pending' LIMIT 1 FOR UPDATE""",
}


def ids(made: Made) -> dict[str, UUID]:
    return {name: getattr(made, name) for name in ("appointment", "slot", "event")}


@pytest.mark.parametrize("part", LOCKS)
@pytest.mark.parametrize("place", ["oldest", "in the middle", "newest"])
def test_c6_what_another_holds_is_passed_over_counted_once_and_taken_later(
    world: World, engine: Engine, part: str, place: str
) -> None:
    age = {"oldest": 3 * HOUR, "in the middle": HOUR, "newest": MINUTE}[place]
    held = world.appointment(expires_in=-age)
    for other in (2 * HOUR, 30 * MINUTE):
        world.appointment(expires_in=-other)
    before = world.state(held)
    with holding(engine, LOCKS[part], **ids(held)):
        report = world.run()
        assert (report.expired, report.skipped_locked, report.failed) == (2, 1, 0)
        assert world.run().skipped_locked == 1
    assert world.state(held) == before
    assert world.run().result()["ExpiredCount"] == 1


def test_c6_a_sent_reminder_in_other_hands_is_no_part_of_the_item(
    world: World, engine: Engine
) -> None:
    made = world.appointment(reminders=("Sent",))
    lock = "SELECT FROM calendar.event_reminders WHERE calendar_event_id = :event FOR UPDATE"
    with holding(engine, lock, event=made.event):
        assert world.run().expired == 1


def test_c6_what_lies_beyond_the_last_claimed_position_was_not_passed_over(
    world: World, engine: Engine
) -> None:
    older = [world.appointment(expires_in=-HOUR) for _ in range(2)]
    held = world.appointment(expires_in=-MINUTE)
    with holding(engine, LOCKS["appointment"], **ids(held)):
        report = world.run(batch_size=2)
    assert (report.expired, report.skipped_locked) == (2, 0)
    assert {world.status(one) for one in older} == {"Expired"}


def test_c6_a_failing_item_that_another_holds_is_counted_too(world: World, engine: Engine) -> None:
    poison = world.appointment(slot_status="Available")
    world.run()
    with holding(engine, LOCKS["slot"], **ids(poison)):
        report = world.run()
    assert (report.skipped_locked, report.failed) == (1, 0)
    assert world.failures()[poison.appointment]["attempts"] == 1


def test_c6_one_that_left_pending_before_the_cycles_end_is_not_counted(
    world: World, engine: Engine
) -> None:
    held, other = world.appointment(expires_in=-HOUR), world.appointment()
    with (
        holding(engine, LOCKS["appointment"], **ids(held)) as neighbour,
        gate(engine, "EXECUTE save_ending") as at_the_other,
    ):
        cycle = Neighbour(world.run)
        at_the_other.wait_reached()
        neighbour.exec_driver_sql(
            f"UPDATE calendar.appointments SET status = 'Confirmed' WHERE id = '{held.appointment}'"
        )
        neighbour.commit()
        at_the_other.release()
        report = cycle.result()
    assert (report.expired, report.skipped_locked) == (1, 0)
    assert world.status(other) == "Expired"


def test_s3_poison_at_the_head_keeps_no_healthy_one_waiting(world: World) -> None:
    """Starvation: 250 poison rows older than 20 healthy ones, batch 200."""
    poison = [world.appointment(expires_in=-HOUR, slot_status="Available") for _ in range(250)]
    healthy = [world.appointment() for _ in range(20)]
    heard: list[facts.Fact] = []
    report = world.run(tell=heard.append)
    assert (report.expired, report.failed) == (20, 250)
    assert {world.status(one) for one in healthy} == {"Expired"}
    named = [fact.appointment_id for fact in heard if isinstance(fact, facts.ItemFailed)]
    assert sorted(named) == sorted(one.appointment for one in poison)
    assert len(world.failures()) == 250
    world.execute(
        "UPDATE calendar.availability_slots SET status = 'Booked' WHERE id = :id", id=poison[0].slot
    )
    assert world.run().expired == 1
    assert world.status(poison[0]) == "Expired"
    assert poison[0].appointment not in world.failures()
    assert {row["attempts"] for row in world.failures().values()} == {2}


def test_s3_a_backlog_does_not_keep_a_mended_item_waiting(world: World) -> None:
    poison = world.appointment(expires_in=-HOUR, slot_status="Available")
    for _ in range(30):
        world.appointment()
    assert world.run(batch_size=10).expired == 10
    assert world.run(batch_size=10).expired == 10
    assert world.failures()[poison.appointment]["attempts"] == 2
    world.execute("UPDATE calendar.availability_slots SET status = 'Booked'")
    assert world.run(batch_size=10).expired == 10
    assert world.status(poison) == "Expired"


def test_s3_the_oldest_deadlines_come_first(world: World) -> None:
    ages = [5, 1, 4, 2, 3]
    made = {age: world.appointment(expires_in=-age * MINUTE) for age in ages}
    assert world.run(batch_size=3).expired == 3
    assert [world.status(made[age]) for age in (5, 4, 3, 2, 1)] == ["Expired"] * 3 + ["Pending"] * 2


def test_s3_equal_deadlines_hide_nobody(world: World) -> None:
    made = [world.appointment() for _ in range(30)]
    world.execute("UPDATE calendar.appointments SET pending_expires_at = now() - interval '1 hour'")
    assert world.run(connections=4).expired == len(made)


Rival = Callable[[World, Made], None]


def extend(world: World, made: Made) -> None:
    world.execute(
        """UPDATE calendar.appointments SET pending_expires_at = now() + interval '1 day',
        updated_at = now(), version = version + 1 WHERE id = :id""",
        id=made.appointment,
    )


def delete(world: World, made: Made) -> None:
    world.execute("DELETE FROM calendar.appointments WHERE id = :id", id=made.appointment)


RIVALS: dict[str, Rival] = {
    "confirm": lambda w, m: operations.confirm(w.engine, m.appointment, w.now()),
    "decline": lambda w, m: operations.decline(w.engine, m.appointment, w.now()),
    "cancel": lambda w, m: operations.cancel(w.engine, m.appointment, m.investor, w.now()),
    "deadline extended": extend,
    "row deleted": delete,
}


@pytest.mark.parametrize("name", RIVALS)
def test_r1_a_rival_that_commits_before_the_lock_wins_and_nothing_is_written(
    world: World, engine: Engine, name: str
) -> None:
    """Lost update, first half: the loser counts neither as failed nor as skipped-locked."""
    made = world.appointment()
    with gate(engine, "EXECUTE claim_next") as before_the_lock:
        cycle = Neighbour(world.run)
        before_the_lock.wait_reached()
        RIVALS[name](world, made)
        after_the_rival = world.state(made)
        before_the_lock.release()
        report = cycle.result()
    assert world.state(made) == after_the_rival
    assert (report.expired, report.failed, report.skipped_locked) == (0, 0, 0)
    assert not world.failures()


@pytest.mark.parametrize("name", RIVALS)
def test_r2_a_rival_that_comes_after_the_lock_waits_and_loses(
    world: World, engine: Engine, name: str
) -> None:
    """Lost update, mirrored: the expiry wins; the rival finds it no longer Pending."""
    made = world.appointment()
    with gate(engine, "EXECUTE save_ending") as before_the_write:
        cycle = Neighbour(world.run)
        before_the_write.wait_reached()
        rival = Neighbour(lambda: RIVALS[name](world, made))
        wait_for_a_waiter(world.engine)
        before_the_write.release()
        assert cycle.result().expired == 1
    if name in {"confirm", "decline", "cancel"}:
        with pytest.raises(Exception, match="found Expired"):
            rival.result()
        assert world.status(made) == "Expired"
    else:  # plain updates of a neighbour without a rule of its own
        rival.result()
    assert len(world.messages(made)) == 2


def test_r3_a_freed_slot_can_be_booked_only_after_the_commit_and_by_one(
    world: World, engine: Engine
) -> None:
    made = world.appointment(starts_in=timedelta(days=3))
    with gate(engine, "EXECUTE save_ending") as before_the_write:
        cycle = Neighbour(world.run)
        before_the_write.wait_reached()
        bookers = [
            Neighbour(lambda: operations.book(engine, made.slot, made.investor, world.now()))
            for _ in range(2)
        ]
        wait_for_a_waiter(world.engine)
        before_the_write.release()
        assert cycle.result().expired == 1
    refused = [refusal(booker) for booker in bookers]
    assert sorted(refused) == ["", f"slot {made.slot}: found Booked, wanted Available"]


def refusal(booker: Neighbour[Appointment]) -> str:
    try:
        return "" if booker.result().status == "Pending" else "not booked"
    except Refusal as refused:
        return str(refused)
