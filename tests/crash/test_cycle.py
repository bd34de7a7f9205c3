"""Crash points of the cycle: at each the process is killed, or its backend ended (C3, C5, S5)."""

import pytest

from dev.servers.kafka import Kafka
from tests.crash import cycle_case, drain_case
from tests.crash.lane import Lane, complaints, strike, told
from tests.crash.victim import KILL, TERMINATE, Order

TIMES = 2


@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize("how", [KILL, TERMINATE])
def test_c3_c5_struck_at_any_point_a_cycle_leaves_each_cascade_whole_or_untouched(
    lanes: list[Lane], kafka: Kafka, how: str, connections: int
) -> None:
    """And one pair per expiry, rows free at once, and all of it done by the next cycle."""
    order = Order("cycle", "", "", connections=connections, strike=how)
    points = cycle_case.points_of(lanes[0], order)
    wanted = {"after EXECUTE claim_next", "after EXECUTE save_ending", "before commit"}
    wanted |= {"before COMMIT", "after COMMIT"}  # with the next claim
    assert wanted <= {point.place for point in points}
    if connections > 1:  # they take turns as it comes: the same points over again say little
        points = [point for point in points if point.time <= TIMES]
    struck = strike(lanes, cycle_case.case(kafka, order), points)
    print(f"{how}, {connections} connections: {told(struck)}")  # noqa: T201 - stated, not judged
    assert not complaints(struck)
    assert not drain_case.in_kafka(kafka, lanes)
