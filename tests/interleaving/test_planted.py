"""A test of the tests: with a bug planted in the product, the harness reports a violation.

The bugs that need a killed process are planted in tests/crash/test_planted.py.
"""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import Phase

from dev.servers.kafka import Kafka
from dev.servers.postgres import Postgres
from tests.conftest import TEMPLATE
from tests.interleaving import plants, stale
from tests.interleaving.history import play
from tests.interleaving.orders import Orders
from tests.interleaving.roles import BOOK, CONFIRM, EXPIRY, REMINDER, Role
from tests.interleaving.stage import Stage, stage
from tests.interleaving.step import unseen
from tests.publish.outbox_world import sender_to
from tests.world import World

WAITED = "C2: expiry waited at "
PLANTED: dict[str, tuple[plants.Plant, Role, str]] = {
    "a lock dropped from the claim": (plants.claim_without_lock, CONFIRM, f"{WAITED}'write'"),
    "a claim that waits": (plants.claim_that_waits, CONFIRM, f"{WAITED}'claim'"),
    "the slot not locked": (plants.claim_without_lock_on("slot"), BOOK, f"{WAITED}'write'"),
    "the event not locked": (plants.claim_without_lock_on("event"), REMINDER, f"{WAITED}'write'"),
    "a status predicate removed": (plants.claim_of_any_status, CONFIRM, "0, 0, 1), won: False"),
    "neither lock nor version": (
        plants.neither_lock_nor_version,
        CONFIRM,
        "status found Expired, wanted Confirmed",
    ),
    "reminders not skipped": (
        plants.reminders_not_skipped,
        CONFIRM,
        "status found Pending, wanted Expired",
    ),
    "half a pair of messages": (plants.half_a_pair, CONFIRM, "messages: found"),
    "a commit before the messages": (
        plants.commit_before_the_messages,
        CONFIRM,
        "messages: found [], wanted [{",
    ),
    "rivals without their locks": (plants.rivals_without_lock, CONFIRM, "VersionConflictError"),
}
"""The bug, the rival that brings it to light, and what the judge must say."""


def complaints(on: Stage, cast: Sequence[Role]) -> Iterator[str]:
    """What breaks a rule, order after order."""
    for played in Orders(unseen).every(lambda choose: on.play(cast, choose)):
        yield from played.violations


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_among_the_orders_of_two(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    plant, rival, words = PLANTED[bug]
    plant(monkeypatch.setattr)
    with stage(postgres, TEMPLATE, actors=2) as planted:
        assert any(words in text for text in complaints(planted, [EXPIRY, rival]))


def test_without_a_bug_the_same_orders_are_clean(the_stage: Stage) -> None:
    for rival in (CONFIRM, BOOK, REMINDER):
        assert list(complaints(the_stage, [EXPIRY, rival])) == []


def test_a_version_predicate_removed_is_found_by_stale_writes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind row locks it never decides, so no order can show it: R2's second line of defence."""
    plants.write_over_any_version(monkeypatch.setattr)
    assert stale.violations(world)


def test_a_planted_bug_is_found_by_random_histories(
    world: World, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    plants.half_a_pair(monkeypatch.setattr)
    sender = sender_to(kafka.bootstrap)
    with pytest.raises(AssertionError, match="messages: found"):
        play(world, sender, lambda _rows: None, 60, (Phase.generate,))
    sender.close()
