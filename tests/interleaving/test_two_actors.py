"""One expiry cycle and one rival, in literally every order of their steps (R1-R5, C2-C6, S6)."""

import re

import pytest

from tests.interleaving import table
from tests.interleaving.judge import Played
from tests.interleaving.roles import (
    BOOK,
    CANCEL,
    CONFIRM,
    DEADLINE,
    DECLINE,
    DELETE,
    EXPIRY,
    REMINDER,
    RIVALS,
    Role,
)
from tests.interleaving.schedule import Went
from tests.interleaving.stage import Stage

WINNERS = {
    **{
        rival: {(EXPIRY.name,), (rival.name,)}
        for rival in (CONFIRM, DECLINE, CANCEL, DEADLINE, DELETE)
    },
    EXPIRY: {("expiry",), ("another expiry",)},
    # R3: only after the commit, or not at all
    BOOK: {("expiry", BOOK.name), ("expiry",), ()},
    # D4: skipped with the others, or refused, or in time to keep the event from the cycle's hands
    REMINDER: {("expiry",), (REMINDER.name, "expiry"), (REMINDER.name,)},
}
"""Who may have changed something, in the order of their commits."""


@pytest.mark.parametrize("rival", RIVALS, ids=lambda role: role.name)
def test_r1_r2_r3_in_every_order_one_wins_the_loser_writes_nothing_and_the_table_says_so(
    the_stage: Stage, rival: Role
) -> None:
    """Also C3, C6, S6: versions, pairs, figures, no deadlock, no wait that outlives its holder."""
    played = table.play_all(the_stage, [EXPIRY, rival])
    assert not complaints(played)
    assert {one.ended.did for one in played} == WINNERS[rival]
    waited = any(event.went is Went.INTO_A_WAIT for one in played for event in one.events)
    assert waited == (rival is not EXPIRY), "rivals wait for the item in hand, cycles never"
    assert any("1 skipped" in figures for one in played for figures in one.ended.figures)
    fresh = table.part(rival.name, played)
    assert fresh in table.PAGE.read_text(), f"docs/interleavings.md is stale: run {table.COMMAND}"


def test_the_table_holds_every_rival_and_nothing_else() -> None:
    head, *parts = re.split(r"^(?=## )", table.PAGE.read_text(), flags=re.MULTILINE)
    counts = {name: int(n) for name, n in re.findall(r"## (.+): (\d+) orders\n", "".join(parts))}
    assert list(counts) == [rival.name for rival in RIVALS]
    assert head == table.head(sum(counts.values())), f"run {table.COMMAND}"


def complaints(played: list[Played]) -> str:
    """What broke a rule, under the order in which it did."""
    return "\n".join(
        f"{table.told(one.events)}:\n  " + "\n  ".join(one.violations)
        for one in played
        if one.violations
    )
