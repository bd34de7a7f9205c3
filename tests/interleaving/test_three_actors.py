"""One expiry cycle and two rivals: all orders of what locks, and samples of everything (S6)."""

import os
import secrets
from itertools import combinations

import pytest

from tests.interleaving.orders import Orders, sampled
from tests.interleaving.roles import DEADLINE, DELETE, EXPIRY, REMINDER, RIVALS, Role
from tests.interleaving.stage import Stage
from tests.interleaving.step import apart, locking, never
from tests.interleaving.test_two_actors import complaints

SEED = int(os.environ.get("INTERLEAVING_SEED", secrets.randbelow(10**6)))
SAMPLES = 8
PAIRS = list(combinations(RIVALS, 2))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: " + ".join(role.name for role in pair))
def test_s6_r1_r5_between_three_nobody_sees_a_deadlock_and_each_change_has_one_author(
    the_stage: Stage, pair: tuple[Role, Role]
) -> None:
    cast = [EXPIRY, *pair]
    orders = Orders(apart)
    played = list(orders.every(lambda choose: the_stage.play(cast, choose, locking)))
    print(f"{orders.told}; samples: INTERLEAVING_SEED={SEED}")  # noqa: T201 - shown on failure
    assert not complaints(played)
    assert orders.lost * 20 <= orders.played, orders.told
    assert not complaints(list(sampled(lambda choose: the_stage.play(cast, choose), SEED, SAMPLES)))
    assert len({one.ended.did for one in played}) > 2, "they never really met"


@pytest.mark.parametrize("rival", [DELETE, DEADLINE], ids=lambda role: role.name)
def test_the_orders_that_were_left_out_end_like_those_that_were_played(
    the_stage: Stage, rival: Role
) -> None:
    """What `apart` takes to be alike is alike."""
    cast = [EXPIRY, REMINDER, rival]
    few, all_ = (
        {one.ended for one in Orders(alike).every(lambda c: the_stage.play(cast, c, locking))}
        for alike in (apart, never)
    )
    assert few == all_
