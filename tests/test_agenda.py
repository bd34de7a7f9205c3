"""Whose turn it is in a cycle, without a database (S3, S4, S5)."""

import threading
from collections.abc import Iterable
from uuid import UUID, uuid4

import pytest

from app.agenda import Agenda
from app.store.runs import Outcome


def agenda(
    batch_size: int = 10, seconds: float = 60, failed: Iterable[UUID] = (), *, stop: bool = False
) -> Agenda:
    return Agenda(
        batch_size=batch_size,
        seconds=seconds,
        stopping=lambda: stop,
        failed_before=list(failed),
    )


def take(shared: Agenda, *, expired: bool) -> UUID | str | None:
    """One turn, used or not: the failed id, 'next', or None when the cycle is over."""
    turn = shared.take()
    if turn is None:
        return None
    shared.give_back(expired=expired)
    return turn.retry or "next"


def test_s3_the_bound_counts_what_expires_not_what_is_tried() -> None:
    shared = agenda(batch_size=3)
    assert [take(shared, expired=False) for _ in range(50)] == ["next"] * 50
    assert [take(shared, expired=True) for _ in range(4)] == ["next", "next", "next", None]
    assert shared.outcome is Outcome.COMPLETED


def test_s3_those_that_failed_before_come_after_the_others() -> None:
    failed = [uuid4(), uuid4()]
    shared = agenda(failed=failed)
    assert take(shared, expired=True) == "next"
    shared.nobody_left()
    assert [take(shared, expired=False) for _ in range(3)] == [*failed, None]


def test_s3_a_full_batch_does_not_keep_the_failed_from_their_try() -> None:
    failed = [uuid4() for _ in range(5)]
    shared = agenda(batch_size=10, failed=failed)
    turns = [take(shared, expired=True) for _ in range(9)]
    turns += [take(shared, expired=False) for _ in range(5)]
    turns += [take(shared, expired=True) for _ in range(2)]
    assert turns == ["next"] * 9 + failed + ["next", None]


@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_s3_without_failures_the_whole_bound_is_used(batch_size: int) -> None:
    shared = agenda(batch_size=batch_size)
    turns = [take(shared, expired=True) for _ in range(batch_size + 1)]
    assert turns == ["next"] * batch_size + [None]


def test_s3_while_the_rest_of_the_bound_is_in_other_hands_a_lane_waits_for_it() -> None:
    shared = agenda(batch_size=1)
    waiting = threading.Event()
    got: list[UUID | str | None] = []

    def lane() -> None:
        waiting.set()
        got.append(take(shared, expired=True))

    assert shared.take()
    other = threading.Thread(target=lane)
    other.start()
    assert waiting.wait(10)
    assert got == []  # the only permit is in our hands, and we may yet fail
    assert shared.take_free() is None  # with one in hand nobody waits for another
    shared.give_back(expired=False)
    other.join(10)
    assert got == ["next"]


def test_a_lane_that_waits_ends_when_another_breaks_with_its_turn_in_hand() -> None:
    shared = agenda(batch_size=1)
    got: list[UUID | str | None] = []
    assert shared.take()
    other = threading.Thread(target=lambda: got.append(take(shared, expired=True)))
    other.start()
    shared.end(Outcome.FAILED)
    other.join(10)
    assert got == [None]


def test_s3_an_appointment_is_attempted_once_whichever_connection_tries() -> None:
    shared, one = agenda(), uuid4()
    assert [shared.admit(one), shared.admit(one)] == [True, False]


def test_s4_after_its_time_a_cycle_takes_no_further_item_and_is_cut_short() -> None:
    shared = agenda(seconds=0)
    assert take(shared, expired=True) is None
    assert shared.outcome is Outcome.CUT_SHORT


def test_s5_a_stop_request_ends_it_between_items() -> None:
    shared = agenda(stop=True)
    assert take(shared, expired=True) is None
    assert shared.outcome is Outcome.STOPPED
