"""Crash points of the publisher: at each it is killed, or its backend ended (O2, O3, S5)."""

import pytest

from dev.servers.kafka import Kafka
from tests.crash import drain_case
from tests.crash.lane import Lane, complaints, strike, told
from tests.crash.victim import KILL, TERMINATE, Order


@pytest.mark.parametrize("how", [KILL, TERMINATE])
def test_o2_o3_struck_at_any_point_a_drain_loses_nothing_and_keeps_every_keys_order(
    lanes: list[Lane], kafka: Kafka, how: str
) -> None:
    """And every copy is identical in id, key and bytes."""
    order = Order("drain", "", "", strike=how)
    points = drain_case.points_of(lanes[0], kafka, order)
    wanted = {"after produce", "after an acknowledgement is noted", "before UPDATE outbox_messages"}
    assert wanted <= {point.place for point in points}
    struck = strike(lanes, drain_case.case(kafka, order), points)
    print(f"{how}: {told(struck)}")  # noqa: T201 - stated, not judged
    assert not complaints(struck)
    assert not drain_case.in_kafka(kafka, lanes)
