"""`docs/chaos.md`: what was tried, how it is counted, and a scorecard for each kind of broker."""

import re
from collections.abc import Sequence
from pathlib import Path

from dev.chaos import scorecard
from dev.chaos.catalogue import FAULTS
from dev.chaos.kafkas import TITLES
from dev.chaos.pace import INTERVAL, RATE, Pace
from dev.chaos.stage import MAX_CONNECTIONS
from dev.chaos.trial import Line

_INTRODUCTION = f"""# Chaos: the scorecard

<!-- Made by `python -m dev.chaos --write docs/chaos.md`: do not edit. -->

The real stack (beat, two prefork workers with two children each, PostgreSQL with fsync and
{MAX_CONNECTIONS} connections, Valkey, Kafka with three partitions a topic) works under a steady
load of people who book, confirm, decline, cancel and book again what became free, and of another
writer that adds to five long-lived keys: {RATE:.0f} operations a second, seeded. A tick and a drain
come every {INTERVAL:.0f} s instead of every 60 s and 10 s. The product reaches each server through
a TCP proxy. One fault at a time is struck and undone; then the product must recover by itself, and
everything is judged, by code that shares nothing with the product's.

* **lasted**: seconds from the strike to its undoing. **recovered**: of all appointments that
  fell due and messages that were written in that time, the share that is done; 100 % also means
  that ticks succeed again on *every* worker and that each run of before has ended (a drain follows
  a cycle whose end could not be recorded for five seconds). **after**: seconds from the undoing
  until then.
* **lost**: a promised booking or decision that is not there, an end without its pair of messages,
  an acknowledged message on no topic, a message set aside.
* **double**: a version that counts more than one transition, more messages than ends, a state that
  nobody was promised, a message on a topic that the outbox does not know.
* **order**: first occurrences of a key's messages out of order.
* **other**: an unlawful state of anything, an expiry before its deadline, a copy that differs in
  key, bytes or headers, a row left locked, a backend of the product left behind, a deadlock told to
  a user, a process that died or ended with an error, a violation that `python -m app verify` names.
* **latest expiry**: how long after its deadline the latest appointment expired, outage included.
  **shutdown**: the longest from TERM to the end of a worker. **operations**: done, of those that
  the load tried meanwhile. **repeats**: copies beyond the first (delivery is at least once).
"""


def write(path: Path, kind: str, command: str, day: str, pace: Pace, lines: Sequence[Line]) -> None:
    """Renew this broker's part of the page; the other's stays."""
    parts = _parts(path.read_text()) if path.exists() else {}
    clean = sum(line.clean for line in lines)
    parts[TITLES[kind]] = (
        f"`{command}`, {day}: {clean} of {len(lines)} faults survived."
        f" {'Short' if pace.short else 'Full'} durations; a cycle takes items for {pace.budget} s."
        f"\n\n{scorecard.markdown(lines)}\n"
    )
    known = [title for title in TITLES.values() if title in parts]
    sections = [f"## With {title}\n\n{parts[title].strip()}\n" for title in known]
    path.write_text("\n".join([_INTRODUCTION, _faults(), *sections]))


def _parts(text: str) -> dict[str, str]:
    found = re.split(r"^## With (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def _faults() -> str:
    rows = "\n".join(f"| {one.name} | {one.does} | {one.undone} |" for one in FAULTS.values())
    return f"## The faults\n\n| fault | what it does | how it is undone |\n|---|---|---|\n{rows}\n"
