"""`python -m tests.interleaving.table` writes docs/interleavings.md: order, winner, messages."""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from app import migrations
from dev.servers.postgres import Postgres
from tests.conftest import TEMPLATE, engine_for
from tests.interleaving.judge import Ended, Played
from tests.interleaving.orders import Orders
from tests.interleaving.roles import EXPIRY, RIVALS, Role
from tests.interleaving.schedule import Event, Went
from tests.interleaving.stage import Stage, stage
from tests.interleaving.step import never

PAGE = Path(__file__).parents[2] / "docs" / "interleavings.md"
COMMAND = "python -m tests.interleaving.table"

_HEAD = f"""# Every order of two connections

Written by `{COMMAND}`; a test fails when it is not what the code does.

One overdue appointment, one expiry cycle, one rival, each on a connection of its own and on real
PostgreSQL. Both stand still before every statement and commit that the other could notice, and go
on one step at a time, in all {{total}} orders there are. After every commit the whole database is
compared with what the specification makes of it: one winner, a loser that wrote nothing, versions
one higher, one pair of messages per ending, true figures; nobody hears of a deadlock, the cycle
never waits, and who waits is woken by the holder's end. Orders that came out alike share a line.

"""
_COLUMNS = (
    "orders",
    "who changed it",
    "appointment",
    "messages",
    "the cycle",
    "waited",
    "shortest",
)


def play_all(on: Stage, cast: Sequence[Role]) -> list[Played]:
    """Literally every order of the visible steps of this cast."""
    return list(Orders(never).every(lambda choose: on.play(cast, choose)))


def page(played: Mapping[str, Sequence[Played]]) -> str:
    """The whole document; `played` by the rival's name."""
    parts = [part(rival, orders) for rival, orders in played.items()]
    return head(sum(map(len, played.values()))) + "\n".join(parts)


def head(total: int) -> str:
    """What stands before the tables."""
    return _HEAD.format(total=total)


def part(rival: str, played: Sequence[Played]) -> str:
    """One rival's table."""
    alike: dict[Ended, list[Played]] = defaultdict(list)
    for one in played:
        alike[one.ended].append(one)
    lines = [_line(ended, orders) for ended, orders in alike.items()]
    titles = [_row(_COLUMNS), _row(["---"] * len(_COLUMNS))]
    return "\n".join([f"## {rival}: {len(played)} orders", "", *titles, *sorted(lines), ""])


def _line(ended: Ended, orders: Sequence[Played]) -> str:
    shortest = min((told(one.events) for one in orders), key=lambda text: (len(text), text))
    return _row(
        [
            str(len(orders)),
            _list(ended.did),
            ended.appointment,
            _list(ended.messages),
            "; ".join(ended.figures),
            _list(ended.waited),
            shortest,
        ]
    )


def told(events: Sequence[Event]) -> str:
    """An order in words: who went how far before the other went on."""
    turns = groupby(
        (event for event in events if event.went is not Went.ALONG), lambda event: event.actor
    )
    return "; ".join(f"{actor}: {', '.join(map(_step, turn))}" for actor, turn in turns)


def _step(event: Event) -> str:
    waits = {Went.INTO_A_WAIT: " (waits)", Went.OUT_OF_A_WAIT: " (woken)"}
    return event.step.label + waits.get(event.went, "")


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "–"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Play everything and write the page."""
    with (
        tempfile.TemporaryDirectory(prefix="calendar-interleavings-") as directory,
        Postgres(Path(directory), durable=False) as server,
    ):
        server.create_database(TEMPLATE)
        engine = engine_for(server, TEMPLATE)
        migrations.apply(engine)
        engine.dispose()  # a template must have nobody in it
        with stage(server, TEMPLATE, actors=2) as on:
            played = {rival.name: play_all(on, [EXPIRY, rival]) for rival in RIVALS}
    broken = [text for orders in played.values() for one in orders for text in one.violations]
    PAGE.write_text(page(played))
    sys.exit("\n".join(broken) or None)


if __name__ == "__main__":
    main()
