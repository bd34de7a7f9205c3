"""Crash points of the publisher: at each it is killed, or its backend ended (O2, O3, S5)."""

import pytest

from dev.servers.kafka import Kafka
from tests.crash import drain_case
from tests.crash.lane import Lane, complaints, strike_all, told
from tests.crash.victim import KILL, TERMINATE, Order


@pytest.mark.parametrize("strike", [KILL, TERMINATE])
def test_o2_o3_struck_at_any_point_a_drain_loses_nothing_and_keeps_every_keys_order(
    lanes: list[Lane], kafka: Kafka, strike: str
) -> None:
    """And every copy is identical in id, key and bytes."""
    order = Order("drain", "", "", strike=strike)
    points = drain_case.points_of(lanes[0], kafka, order)
    assert {"after produce", "after an acknowledgement is noted", "before commit"} <= set(points)
    struck = strike_all(lanes, drain_case.case(kafka, order), range(1, len(points) + 1))
    print(f"{strike}: {told(struck)}")  # noqa: T201 - stated, not judged
    assert not complaints(struck)
    assert "not reached" not in {one.point for one in struck}
    assert not drain_case.in_kafka(kafka, lanes)
