"""The command line: which faults on which broker, how long, and where the scorecard goes."""

import argparse
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dev.chaos.catalogue import FAULTS
from dev.chaos.fault import Fault
from dev.chaos.kafkas import APACHE, EMBEDDED
from dev.chaos.pace import Pace


@dataclass(frozen=True)
class Wish:
    """What is to be done."""

    kind: str
    faults: list[Fault]
    pace: Pace
    seed: int
    write: Path | None
    listing: bool
    given: tuple[str, ...]

    @property
    def command(self) -> str:
        """How to do it again; without where it was written."""
        return " ".join(["python -m dev.chaos", *self.given, f"--seed {self.seed}"])


def read(argv: Sequence[str]) -> Wish:
    """Parse the command line; exits with a sentence when it is wrong."""
    parser = _parser()
    given = parser.parse_args(argv)
    unknown = [name for name in given.only if name not in FAULTS]
    if unknown:
        parser.error(f"there is no fault {', '.join(unknown)}; --list shows all")
    chosen = [FAULTS[name] for name in given.only] or list(FAULTS.values())
    faults = [one for one in chosen if given.kafka in one.kinds]
    if not faults:
        parser.error(f"none of these faults means anything with --kafka {given.kafka}")
    words = [f"--kafka {given.kafka}"]
    words += [f"--only {' '.join(given.only)}"] if given.only else []
    words += ["--short"] if given.short else []
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    return Wish(given.kafka, faults, Pace(given.short), seed, given.write, given.list, tuple(words))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dev.chaos",
        description="The real stack under load, one fault at a time, and a scorecard. Exit code 1"
        " unless every fault was survived: all recovered, nothing lost, doubled or out of order.",
    )
    add = parser.add_argument
    add("--kafka", choices=[EMBEDDED, APACHE], default=EMBEDDED, help="which broker (embedded)")
    add("--only", nargs="+", default=[], metavar="FAULT", help="these faults, in this order")
    add(
        "--short",
        action="store_true",
        help="durations scaled down: ten minutes instead of half an hour",
    )
    add("--seed", type=int, help="of the load and of the choice of victims (random, and shown)")
    add("--list", action="store_true", help="show the faults and do nothing")
    add("--write", type=Path, metavar="PAGE", help="renew this broker's part of that page")
    return parser


def leave(sentence: str) -> NoReturn:
    """End with one plain sentence."""
    raise SystemExit(sentence)
