"""Poison among good messages: too large, no such topic, no valid headers (O4, D5)."""

import json
from uuid import UUID, uuid4

import pytest

from app import facts
from app.kafka import Sender
from app.relay import MAX_ATTEMPTS
from dev.servers.kafka import Kafka
from tests.publish.conftest import PARTITIONS
from tests.publish.outbox_world import (
    QUICK,
    OutboxWorld,
    everything_on,
    message_id,
    new_topic,
    sender_to,
)

PERSON = "Анна +7 900 000-00-00"
LARGE = json.dumps(PERSON + "x" * 2_000_000, ensure_ascii=False)
BAD_HEADERS: dict[str, object] = {
    "list": ["correlation-id", PERSON],
    "text": PERSON,
    "nothing": None,
    "number": 5,
    "number inside": {"correlation-id": 5},
    "truth inside": {"correlation-id": True},
    "list inside": {"correlation-id": [PERSON]},
    "empty list inside": {"correlation-id": []},
    "object inside": {"correlation-id": {"is": PERSON}},
}
DEEP = '{"correlation-id": ' + "[" * 3000 + "]" * 3000 + "}"
"""Deeper than Python's own JSON reader goes."""


@pytest.fixture
def quick_sender(broker: Kafka) -> Sender:
    """A sender that is soon convinced that a topic does not exist."""
    return sender_to(broker.bootstrap, QUICK)


def poison(outbox: OutboxWorld, unknown: str) -> dict[str, UUID]:
    """One message of every bad kind, each with a key of its own."""
    bad = {
        "too large": outbox.add("too large", payload=LARGE),
        "unknown topic": outbox.add("unknown topic", topic=unknown),
        "impossible topic": outbox.add("impossible topic", topic="t" * 600),
        "deep": outbox.add("deep", headers=DEEP),
    }
    for kind, headers in BAD_HEADERS.items():
        bad[kind] = outbox.add(kind, headers=json.dumps(headers, ensure_ascii=False))
    return bad


def test_o4_the_good_go_out_in_the_same_drain_and_the_bad_are_set_aside_after_their_tries(
    outbox: OutboxWorld, quick_sender: Sender, broker: Kafka
) -> None:
    good = outbox.add_all(["before"] * 3)
    bad = poison(outbox, f"unknown-{uuid4()}")
    behind = outbox.add("deep")
    good += outbox.add_all(["behind"] * 3)
    heard: list[facts.Fact] = []
    report = outbox.drain(quick_sender, tell=heard.append)
    assert (report.outcome, report.published, report.refused) == ("completed", 6, len(bad))
    assert outbox.unsent() == [*bad.values(), behind]
    found = everything_on(broker.bootstrap, outbox.topic, PARTITIONS)
    assert sorted(map(message_id, found)) == sorted(good)
    for attempts in range(2, MAX_ATTEMPTS + 1):
        assert {outbox.row(name)["set_aside_at"] for name in bad.values()} == {None}
        report = outbox.drain(quick_sender, tell=heard.append)
        assert {outbox.row(name)["attempts"] for name in bad.values()} == {attempts}
    assert (report.refused, report.set_aside) == (len(bad), len(bad))
    refusals = [fact for fact in heard if isinstance(fact, facts.MessageRefused)]
    assert [r.attempts for r in refusals if r.message_id == bad["deep"]] == [1, 2, 3, 4, 5]
    assert {r.message_id for r in refusals if r.set_aside} == set(bad.values())
    after = outbox.drain(quick_sender)
    assert (after.published, after.refused, outbox.kept(after)) == (0, 0, [])
    assert {outbox.row(name)["attempts"] for name in bad.values()} == {MAX_ATTEMPTS}


def test_d5_of_a_refused_message_its_cause_is_kept_and_no_content(
    outbox: OutboxWorld, quick_sender: Sender, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = poison(outbox, f"unknown-{uuid4()}")
    heard: list[facts.Fact] = []
    report = outbox.drain(quick_sender, tell=heard.append)
    errors = {kind: outbox.row(name)["last_error"] for kind, name in bad.items()}
    assert errors["too large"].startswith("MSG_SIZE_TOO_LARGE")
    assert "UNKNOWN_TOPIC" in errors["unknown topic"]
    assert errors["impossible topic"].startswith("_INVALID_ARG")
    assert {errors[kind] for kind in [*BAD_HEADERS, "deep"]} == {
        "its headers are no flat object of texts"
    }
    said = f"{heard} {outbox.kept(report)} {errors} {capfd.readouterr()}"
    assert "Анна" not in said
    assert "+7 900" not in said


def test_o4_what_was_set_aside_goes_out_once_and_in_order_when_its_cause_is_mended(
    outbox: OutboxWorld, quick_sender: Sender, broker: Kafka
) -> None:
    unknown = f"unknown-{uuid4()}"
    topicless = [outbox.add("k", topic=unknown), outbox.add("k", topic=unknown)]
    first = outbox.add("k", payload=LARGE)
    for _ in range(MAX_ATTEMPTS):
        outbox.drain(quick_sender)
    later = [outbox.add("k"), outbox.add("k")]
    assert outbox.drain(quick_sender).published == 0
    mended = new_topic(broker.bootstrap, 1, unknown)
    outbox.execute(
        "UPDATE calendar.outbox_messages SET payload = '{}' WHERE message_id = :id", id=first
    )
    assert outbox.requeue() == 2
    assert outbox.drain(quick_sender).published == 5
    found = everything_on(broker.bootstrap, outbox.topic, PARTITIONS)
    assert list(map(message_id, found)) == [first, *later]
    assert list(map(message_id, everything_on(broker.bootstrap, mended))) == topicless
