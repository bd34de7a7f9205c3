"""The scorecard: a line per fault, for a terminal and for the documentation."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from dev.chaos.trial import Line
from dev.chaos.verdict import Kind

_TITLES = (
    "fault",
    "lasted",
    "recovered",
    "after",
    "lost",
    "double",
    "order",
    "other",
    "latest expiry",
    "shutdown",
    "operations",
    "repeats",
)
_SHORT = ("fault", "lasted", "well", "after", "lost", "dbl", "ord", "oth", "late", "stop", "load")
"""What fits a terminal of 80 columns."""


def _cells(line: Line) -> list[str]:
    return [
        line.fault,
        f"{line.lasted:.0f}s",
        f"{line.recovered:.0f}%",
        f"{line.seconds:.1f}s",
        *(str(line.count(kind)) for kind in Kind),
        f"{line.latest:.1f}s",
        "-" if line.shutdown is None else f"{line.shutdown:.1f}s",
        f"{line.done}/{line.operations}",
        str(line.repeats),
    ]


def table(lines: Sequence[Line], title: str) -> Table:
    """For eyes: what is not clean is red."""
    made = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    for number, name in enumerate(_SHORT):
        made.add_column(name, justify="right" if number else "left", no_wrap=True)
    for line in lines:
        made.add_row(*_cells(line)[: len(_SHORT)], style="" if line.clean else "bold red")
    return made


def sentence(line: Line) -> Text:
    """One fault's outcome in a line."""
    lost, double, order, other = (line.count(kind) for kind in Kind)
    mark = ("✓ ", "bold green") if line.clean else ("✗ ", "bold red")
    return Text.assemble(
        mark,
        (f"{line.fault:22}", "bold"),
        f" {line.recovered:3.0f} % after {line.seconds:5.1f} s; {lost} lost, {double} double,"
        f" {order} out of order, {other} other",
    )


def troubles(line: Line, limit: int = 10) -> Text:
    """What was found, the first of them."""
    shown = [f"    {one.kind}: {one.says}: {one.identifier}" for one in line.findings[:limit]]
    more = len(line.findings) - limit
    return Text("\n".join([*shown, *([f"    and {more} more"] if more > 0 else [])]), "red")


def markdown(lines: Sequence[Line]) -> str:
    """For the documentation."""
    rows = [_TITLES, ("---", *["--:"] * (len(_TITLES) - 1)), *map(_cells, lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
