"""Crash points of the cycle: at each the process is killed, or its backend ended (C3, C5, S5)."""

import pytest

from dev.servers.kafka import Kafka
from tests.crash import cycle_case, drain_case
from tests.crash.lane import Lane, complaints, strike_all, told
from tests.crash.victim import KILL, TERMINATE, Order

MORE = 4
"""With several connections the number of points varies a little; so many more are tried."""


@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize("strike", [KILL, TERMINATE])
def test_c3_c5_struck_at_any_point_a_cycle_leaves_each_cascade_whole_or_untouched(
    lanes: list[Lane], kafka: Kafka, strike: str, connections: int
) -> None:
    """And one pair per expiry, rows free at once, and all of it done by the next cycle."""
    order = Order("cycle", "", "", connections=connections, strike=strike)
    points = cycle_case.points_of(lanes[0], order)
    assert {"after EXECUTE claim_next", "after EXECUTE save_ending", "before commit"} <= set(points)
    count = len(points) + (0 if connections == 1 else MORE)
    struck = strike_all(lanes, cycle_case.case(kafka, order), range(1, count + 1))
    print(f"{strike}, {connections} connections: {told(struck)}")  # noqa: T201 - stated, not judged
    assert not complaints(struck)
    missed = [one.at for one in struck if one.point == "not reached"]
    assert len(missed) <= (0 if connections == 1 else 3 * MORE), f"never met again: {missed}"
    assert not drain_case.in_kafka(kafka, lanes)
