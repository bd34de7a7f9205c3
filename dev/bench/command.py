"""The command line: which figures, how thoroughly, and where the results go."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.bench.catalogue import FIGURES
from dev.bench.figure import Figure
from dev.bench.stage import APACHE, EMBEDDED


@dataclass(frozen=True)
class Wish:
    """What is to be measured."""

    figures: list[Figure]
    short: bool
    kind: str
    write: Path | None
    json: Path | None
    listing: bool
    given: tuple[str, ...]

    @property
    def command(self) -> str:
        """How to do it again; without where it was written."""
        return " ".join(["python -m dev.bench", *self.given])


def read(argv: Sequence[str]) -> Wish:
    """Parse the command line; exits with a sentence when it is wrong."""
    parser = _parser()
    given = parser.parse_args(argv)
    unknown = [name for name in given.only if name not in FIGURES]
    if unknown:
        parser.error(f"there is no figure {', '.join(unknown)}; --list shows all")
    words = [] if given.kafka == EMBEDDED else [f"--kafka {given.kafka}"]
    words += [f"--only {' '.join(given.only)}"] if given.only else []
    words += ["--short"] if given.short else []
    chosen = [FIGURES[name] for name in given.only] or list(FIGURES.values())
    return Wish(chosen, given.short, given.kafka, given.write, given.json, given.list, tuple(words))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dev.bench",
        description="How near the product is to what the servers can do: each figure divides two"
        " things measured in turns. Exit code 1 when something was not done, or not once, or by"
        " the wrong plan; never because of time.",
    )
    add = parser.add_argument
    add("--kafka", choices=[EMBEDDED, APACHE], default=EMBEDDED, help="which broker (embedded)")
    add("--only", nargs="+", default=[], metavar="FIGURE", help="these figures, in this order")
    add("--short", action="store_true", help="small and quick: for the structure, not the times")
    add("--list", action="store_true", help="show the figures and do nothing")
    add("--write", type=Path, metavar="DIRECTORY", help="renew the page and the plots there")
    add("--json", type=Path, metavar="FILE", help="write everything that was measured")
    return parser
