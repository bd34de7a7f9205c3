"""`expire --dry-run`: says what the next cycle does, to the byte, and does nothing."""

import json
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest
from sqlalchemy import Engine

from app.dry_run import RUN_ID, Prospect, prospects
from app.store import brake
from app.store.catalogue import TABLES
from tests.neighbour import holding
from tests.world import HOUR, MINUTE, World

App = Callable[..., CompletedProcess[str]]


def everything(world: World) -> dict[str, list[dict[str, Any]]]:
    return {name: world.all(f"SELECT * FROM calendar.{name} ORDER BY 1") for name in TABLES}


def look(world: World, batch_size: int = 200) -> list[Prospect]:
    return list(prospects(world.engine, batch_size))


def test_what_it_says_is_what_the_next_cycle_does(world: World) -> None:
    world.appointment(expires_in=-3 * MINUTE)
    world.appointment(expires_in=-2 * MINUTE, starts_in=MINUTE)
    poison = world.appointment(slot_status="Available", expires_in=-4 * MINUTE)
    world.appointment(expires_in=HOUR)
    before = everything(world)
    said = look(world)
    assert everything(world) == before
    assert [one.appointment_id for one in said if one.ending is None] == [poison.appointment]
    assert said[0].objection is not None
    assert "slot" in said[0].objection

    report = world.run("the-run")
    assert (report.expired, report.failed) == (2, 1)
    endings = [one.ending for one in said if one.ending]
    for ending in endings:
        slot = world.one(
            "SELECT status FROM calendar.availability_slots WHERE id = :id", id=ending.slot.id
        )
        assert slot["status"] == ending.slot.status
    written = {row["message_id"]: row for row in world.messages()}
    promised = {message.message_id: message for one in endings for message in one.messages}
    assert written.keys() == promised.keys()
    for message_id, row in written.items():
        message, payload = promised[message_id], row["payload"]
        assert (row["topic"], row["key"]) == (message.topic, message.key)
        foreseen = json.loads(message.payload)
        for changing in ("CorrelationId", "OccurredAt"):
            foreseen.pop(changing)
            payload.pop(changing)
        assert payload == foreseen


def test_past_failures_come_last_and_the_batch_bounds_what_would_expire(world: World) -> None:
    poison = world.appointment(slot_status="Available", expires_in=-HOUR)
    world.run()
    made = [world.appointment(expires_in=-n * MINUTE) for n in (3, 2, 1)]
    assert [one.appointment_id for one in look(world)] == [
        *(one.appointment for one in made),
        poison.appointment,
    ]
    assert [one.appointment_id for one in look(world, 2)] == [one.appointment for one in made[:2]]


def test_what_others_hold_is_passed_over_or_said(world: World, engine: Engine) -> None:
    held, slot_held = world.appointment(), world.appointment()
    with (
        holding(
            engine,
            "SELECT FROM calendar.appointments WHERE id = :id FOR UPDATE",
            id=held.appointment,
        ),
        holding(
            engine,
            "SELECT FROM calendar.availability_slots WHERE id = :id FOR UPDATE",
            id=slot_held.slot,
        ),
    ):
        [only] = look(world)
    assert only.appointment_id == slot_held.appointment
    assert only.objection == "somebody else holds its slot: it would be passed over"


def test_who_was_shown_is_free_again_while_the_rest_is_looked_at(world: World) -> None:
    for _ in range(2):
        world.appointment()
    looking = prospects(world.engine, 10)
    assert next(looking).ending is not None
    world.execute("SELECT FROM calendar.appointments FOR UPDATE NOWAIT")
    assert next(looking).ending is not None


def test_the_command(app: App, world: World) -> None:
    assert "Nothing is overdue" in app("expire", "--dry-run").stdout
    made = world.appointment()
    shown = app("expire", "--dry-run").stdout
    assert str(made.appointment) in shown
    assert "1 would expire (1 slots freed, 0 expired), 0 would not. Nothing was changed." in shown
    with world.engine.begin() as connection:
        brake.pull(connection, "bad import", "the night shift")
    assert "bad import" in app("expire", "--dry-run").stdout
    [told] = json.loads(app("expire", "--dry-run", "--json").stdout)["appointments"]
    assert told["appointment_id"] == str(made.appointment)
    assert told["messages"][0]["payload"]["CorrelationId"] == RUN_ID
    assert world.status(made) == "Pending"


def test_without_dry_run_it_does_nothing_and_says_where_to_turn(app: App, world: World) -> None:
    made = world.appointment()
    assert "calendar.appointment_timeout" in app("expire", code=2).stdout
    assert world.status(made) == "Pending"


@pytest.fixture
def poisoned_by_a_trigger(world: World) -> World:
    world.execute(
        """CREATE FUNCTION calendar.object() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'P0001'; END $$;
        CREATE TRIGGER object BEFORE UPDATE ON calendar.calendar_events
        FOR EACH ROW EXECUTE FUNCTION calendar.object()"""
    )
    return world


def test_what_only_the_database_objects_to_is_said_too(poisoned_by_a_trigger: World) -> None:
    poisoned_by_a_trigger.appointment()
    [only] = look(poisoned_by_a_trigger)
    assert only.objection is not None
    assert "P0001" in only.objection
