"""The model's formulas beside its simulation of each appointment (accuracy SLO, S1, S3, S4)."""

from dataclasses import replace

import pytest

from dev.bench.model import Pace, simulate

PLAIN = Pace(rate=1_000)
PACES = {
    "as shipped": PLAIN,
    "catch-up": replace(PLAIN, rate=100, catch_up=True, gap=0.5),
    "a large batch": replace(PLAIN, batch=2_000),
    "a slow process": replace(PLAIN, rate=5),
    "a batch beyond the budget": replace(PLAIN, rate=20, batch=1_000, catch_up=True),
    "a cycle over several ticks": replace(PLAIN, rate=50, batch=1_000, interval=8),
}


@pytest.mark.parametrize("name", PACES)
def test_what_is_sustained_is_what_the_simulation_does_under_a_flood(name: str) -> None:
    pace = PACES[name]
    load = pace.sustained * 20
    late = simulate(pace, load, 60 * pace.cycle / load)
    ends = [number / load + one for number, one in enumerate(late)]
    measured = (len(ends) - 1) / (ends[-1] - ends[0])
    assert measured == pytest.approx(pace.sustained, rel=0.03)


@pytest.mark.parametrize("name", PACES)
def test_below_what_is_sustained_nobody_is_later_than_a_tick_and_its_cycle(name: str) -> None:
    pace = PACES[name]
    load = pace.sustained * 0.8
    assert max(simulate(pace, load, 3_600)) <= pace.latest(load) + 1 / load


@pytest.mark.parametrize("name", PACES)
def test_above_it_the_backlog_grows_without_end(name: str) -> None:
    pace = PACES[name]
    load = pace.sustained * 1.2
    short, long = (max(simulate(pace, load, seconds)) for seconds in (1_800, 3_600))
    assert long > short + 0.8 * 1_800 * 0.2


def test_the_accuracy_slo_holds_at_a_batch_a_tick() -> None:
    """`t + 60 s + the cycle's duration`, up to BatchSize due per tick."""
    late = simulate(PLAIN, PLAIN.batch / PLAIN.interval, 3_600)
    assert max(late) <= PLAIN.interval + PLAIN.batch / PLAIN.rate + 1e-6
