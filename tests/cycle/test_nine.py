"""The customer's nine tests (section 9) under their names; the ninth, accuracy, is in system/."""

import threading
from uuid import uuid4

from sqlalchemy import Engine

from app import facts, operations
from app.store.failures import Failure
from app.store.runs import Outcome
from tests.gate import gate
from tests.neighbour import Neighbour
from tests.world import MINUTE, World

ZEROS = {
    "ExpiredCount": 0,
    "SlotsReleasedCount": 0,
    "SlotsExpiredCount": 0,
    "SkippedLockedCount": 0,
}


def test_empty_batch(world: World) -> None:
    """C8: a successful no-op that writes nothing but its run's record."""
    made = world.appointment(expires_in=MINUTE)
    before = world.state(made)
    run_id = str(uuid4())
    report = world.run(run_id)
    assert report.outcome is Outcome.COMPLETED
    assert report.result() == {**ZEROS, "DurationMs": report.duration_ms}
    assert world.state(made) == before
    assert world.messages() == []
    assert world.one("SELECT run_id, outcome FROM calendar.job_runs") == {
        "run_id": run_id,
        "outcome": "completed",
    }


def test_timeout_with_a_usable_slot(world: World) -> None:
    """C3: the whole cascade, and nothing else of any row."""
    made = world.appointment(reminders=("Pending", "Sent", "Skipped", "Pending"))
    before = world.state(made)
    report = world.run()
    assert (report.expired, report.released, report.slots_expired) == (1, 1, 0)
    as_of = report.as_of
    changed = {"updated_at": as_of, "version": 2}
    after = world.state(made)
    assert after["appointment"] == [{**before["appointment"][0], **changed, "status": "Expired"}]
    assert after["slot"] == [{**before["slot"][0], **changed, "status": "Available"}]
    assert after["event"] == [
        {
            **before["event"][0],
            **changed,
            "status": "Cancelled",
            "cancel_reason": "Запись не подтверждена агентом в срок",
        }
    ]
    assert after["reminders"] == [
        {**row, "status": "Skipped", "updated_at": as_of} if row["status"] == "Pending" else row
        for row in before["reminders"]
    ]
    assert [(m["topic"], m["key"]) for m in after["messages"]] == [
        ("pin.calendar.appointment-cancelled.v1", str(made.appointment)),
        ("pin.calendar.event-status-changed.v1", str(made.event)),
    ]
    assert {m["payload"]["CorrelationId"] for m in after["messages"]} == {report.run_id}


def test_timeout_past_the_lead_time(world: World) -> None:
    """C3.2: the slot does not return to the showcase."""
    made = world.appointment(starts_in=30 * MINUTE, lead_minutes=60)
    report = world.run()
    assert (report.released, report.slots_expired) == (0, 1)
    assert world.state(made)["slot"][0]["status"] == "Expired"
    assert len(world.messages(made)) == 2


def test_auto_confirm_never_selected(world: World) -> None:
    """C1: without a deadline nothing is ever overdue, whatever its status says."""
    made = [
        world.appointment(expires_in=None, status=status) for status in ("Confirmed", "Pending")
    ]
    before = [world.state(one) for one in made]
    assert world.run().expired == 0
    assert [world.state(one) for one in made] == before


def test_partial_failure(world: World) -> None:
    """C4: the poison item is rolled back, logged and kept; the rest of the batch is committed."""
    heard: list[facts.Fact] = []
    healthy = [world.appointment() for _ in range(3)]
    poison = world.appointment(expires_in=-2 * MINUTE, slot_status="Available")
    before = world.state(poison)
    report = world.run(tell=heard.append)
    assert (report.outcome, report.expired, report.failed) == (Outcome.COMPLETED, 3, 1)
    assert [world.status(one) for one in healthy] == ["Expired"] * 3
    assert world.state(poison) == before
    rule = "slot: found Available, wanted Booked"
    assert [f for f in heard if isinstance(f, facts.ItemFailed)] == [
        facts.ItemFailed(poison.appointment, Failure(rule))
    ]
    kept = world.failures()[poison.appointment]
    assert (kept["rule"], kept["attempts"], kept["last_run_id"]) == (rule, 1, report.run_id)


def test_parallel_instances(world: World) -> None:
    """R5: four instances on one backlog; each appointment expires once, with one pair."""
    made = [world.appointment() for _ in range(200)]
    start = threading.Barrier(4)
    reports = []

    def instance() -> None:
        start.wait()
        reports.append(world.run(batch_size=200, connections=2))

    threads = [threading.Thread(target=instance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(report.expired for report in reports) == 200
    assert sum(report.failed for report in reports) == 0
    assert {world.status(one) for one in made} == {"Expired"}
    pairs = world.all(
        """SELECT count(*) AS n FROM calendar.outbox_messages
        GROUP BY payload ->> 'AppointmentId'"""
    )
    assert [row["n"] for row in pairs] == [2] * 200


def test_race_with_the_agents_confirm(world: World, engine: Engine) -> None:
    """R1: confirmed before the claim's lock: it stays Confirmed, neither failed nor skipped."""
    made = world.appointment()
    with gate(engine, "EXECUTE claim_next") as before_the_claim:
        cycle = Neighbour(world.run)
        before_the_claim.wait_reached()
        operations.confirm(engine, made.appointment, world.now())
        confirmed = world.state(made)
        before_the_claim.release()
        report = cycle.result()
    assert world.state(made) == confirmed
    assert confirmed["appointment"][0]["status"] == "Confirmed"
    assert (report.expired, report.failed, report.skipped_locked) == (0, 0, 0)


def test_cancellation_during_a_cycle(world: World, engine: Engine) -> None:
    """S5: the item in hand is finished whole, no further one is taken, nothing stays locked."""
    made = [world.appointment() for _ in range(20)]
    stop = threading.Event()
    with gate(engine, "EXECUTE save_ending") as in_the_first_item:
        cycle = Neighbour(lambda: world.run(connections=1, stopping=stop.is_set))
        in_the_first_item.wait_reached()
        stop.set()
        in_the_first_item.release()
        report = cycle.result()
    assert (report.outcome, report.expired) == (Outcome.STOPPED, 1)
    statuses = [world.status(one) for one in made]
    assert statuses.count("Expired") == 1
    assert statuses.count("Pending") == 19
    world.execute("SELECT FROM calendar.appointments FOR UPDATE NOWAIT")
    assert world.run().expired == 19
