"""A test of the tests: bugs that only a killed process brings to light, planted in the victim."""

from dev.servers.kafka import Kafka
from tests.crash import cycle_case, drain_case
from tests.crash.lane import Lane, complaints, strike
from tests.crash.points import Point
from tests.crash.victim import KILL, Order


def at(points: list[Point], words: str) -> list[Point]:
    """Where these words are part of the place."""
    return [point for point in points if words in point.place]


def test_c3_a_commit_before_the_messages_is_found_by_killing_cycles(
    lanes: list[Lane], kafka: Kafka
) -> None:
    order = Order("cycle", "", "", strike=KILL, plant="commit_before_the_messages")
    points = at(cycle_case.points_of(lanes[0], order), "outbox_messages")
    assert points, "the plant does not write its messages in statements of their own"
    struck = strike(lanes, cycle_case.case(kafka, order), points)
    assert "Expired without: one pair" in complaints(struck)


def test_o2_a_mark_before_the_acknowledgement_is_found_by_killing_drains(
    lanes: list[Lane], kafka: Kafka
) -> None:
    order = Order("drain", "", "", strike=KILL, plant="mark_before_the_acknowledgement")
    points = at(drain_case.points_of(lanes[0], kafka, order), "before a wave is sent")
    struck = strike(lanes, drain_case.case(kafka, order), points)
    assert any(one.met for one in struck)
    assert any("O2: lost" in text for text in drain_case.in_kafka(kafka, lanes))
