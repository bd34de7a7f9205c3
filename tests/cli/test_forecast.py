"""`status` tells how long the backlog will take, from the last cycles, or why it cannot."""

import json
from typing import Any

import pytest

from app.cli.forecast import forecast
from app.store.brake import Brake
from app.store.pace import CYCLES, Pace, lately
from tests.cli.conftest import App
from tests.world import MINUTE, World


def empty_in(app: App, **variables: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(app("status", "--json", **variables).stdout)["empty_in"]
    return found


def span(world: World) -> float:
    """From the first cycle's start to the last one's."""
    found = world.one(
        """SELECT extract(epoch FROM max(started_at) - min(started_at))::float AS seconds
        FROM calendar.job_runs"""
    )
    return float(found["seconds"])


def test_the_time_is_that_of_the_last_cycles_from_start_to_start(app: App, world: World) -> None:
    for _ in range(11):
        world.appointment()
    for _ in range(4):
        world.run(batch_size=2)
    found = empty_in(app)
    assert found["seconds"] == pytest.approx(3 * span(world) / 6)  # 3 are left; 3 cycles expired 6
    assert "the last 3 cycles expired" in found["because"]
    assert "about 0." in app("status").stdout


def test_cycles_that_had_nothing_left_over_say_nothing_about_the_pace(
    app: App, world: World
) -> None:
    for _ in range(3):
        world.appointment()
        world.run()
    world.appointment(expires_in=0 * MINUTE)
    assert empty_in(app) == {
        "seconds": None,
        "because": "fewer than two cycles have begun since the oldest is overdue",
    }
    assert "unknown: fewer than two cycles" in app("status").stdout


def test_poison_is_no_part_of_what_will_expire(app: App, world: World) -> None:
    for _ in range(3):
        world.appointment(slot_status="Available")
    for _ in range(7):
        world.appointment()
    for _ in range(3):
        world.run(batch_size=2)
    assert empty_in(app)["seconds"] == pytest.approx(1 * span(world) / 4)  # of two cycles


def test_nothing_in_line_needs_no_time(app: App, world: World) -> None:
    world.run()
    assert empty_in(app) is None
    assert "expired in" in app("status").stdout


def test_a_cycle_that_never_came_to_its_end_counts_with_what_it_is_known_for(world: World) -> None:
    world.appointment()
    since = world.now()
    for _ in range(CYCLES + 5):
        world.run(batch_size=1)
    world.execute("UPDATE calendar.job_runs SET finished_at = NULL, outcome = NULL, result = NULL")
    with world.engine.begin() as connection:
        found = lately(connection, since)
    assert found is not None
    assert (found.cycles, found.expired, found.seconds_for(5)) == (CYCLES, 0, None)


BRAKE = Brake(None, "bad import", "ada")  # type: ignore[arg-type]  # since when does not matter


@pytest.mark.parametrize(
    ("pace", "brake", "told"),
    [
        (
            Pace(10, 2_000, 600, 1),
            None,
            "about 1 h 0 min: the last 10 cycles expired 200 a minute, and no others come",
        ),
        (Pace(1, 12_000, 1, 299), None, "about 1.0 s: the last cycle expired 720,000 a minute"),
        (Pace(10, 2_000, 600, 301), None, "unknown: no cycle has begun for 5 min 1 s"),
        (Pace(10, 0, 600, 1), None, "unknown: the last 10 cycles expired nothing"),
        (Pace(10, 2_000, 600, 1), BRAKE, "unknown: the brake is on"),
        (None, BRAKE, "unknown: the brake is on"),
    ],
)
def test_each_forecast_says_what_it_is_computed_from(
    pace: Pace | None, brake: Brake | None, told: str
) -> None:
    assert str(forecast(12_000, pace, brake, 60)).startswith(told)
