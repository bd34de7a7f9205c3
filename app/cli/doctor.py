"""`doctor`: what is wrong with the configuration, and what mends it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import typer

from app.cli.desk import console, show_json

if TYPE_CHECKING:
    from app.doctor.complaint import Complaint


@dataclass
class Examined:
    """What came of one part; `unexamined` says why there is nothing to say."""

    part: str
    complaints: "list[Complaint]" = field(default_factory=list)
    unexamined: str | None = None


def doctor(*, as_json: bool) -> None:
    """Report each misconfiguration with its remedy: exit 1 if one is serious. Changes nothing."""
    examined = []
    for part in _parts(spinning=console.is_terminal and not as_json):
        examined.append(part)
        if not as_json:
            _show(part)
    found = [(one.part, complaint) for one in examined for complaint in one.complaints]
    serious = sum(complaint.serious for _part, complaint in found)
    warnings = len(found) - serious
    if as_json:
        show_json(
            {
                "serious": serious,
                "warnings": warnings,
                "complaints": [{"part": part, **asdict(one)} for part, one in found],
                "unexamined": {one.part: one.unexamined for one in examined if one.unexamined},
            }
        )
    else:
        _line(f"{_counted(serious, 'serious complaint')}, {_counted(warnings, 'warning')}.")
    raise typer.Exit(1 if serious else 0)


def _parts(*, spinning: bool) -> Iterator[Examined]:
    """Part after part, with a sign of life where somebody looks."""
    from app.doctor import PATIENTS, examine  # noqa: PLC0415
    from app.doctor.complaint import NotExamined  # noqa: PLC0415

    for name in PATIENTS:
        part = Examined(name)
        with _busy(f"Looking at {name} …", shown=spinning):
            try:
                part.complaints.extend(examine(name))
            except NotExamined as reason:
                part.unexamined = str(reason)
        yield part


def _busy(what: str, *, shown: bool) -> AbstractContextManager[object]:
    return console.status(what) if shown else nullcontext()


def _show(part: Examined) -> None:
    if part.unexamined:
        _line(f"– {part.part:<10}  not examined: {part.unexamined}")
    elif not part.complaints:
        _line(f"✓ {part.part:<10}  ok")
    for complaint in part.complaints:
        mark, word = ("✗", "") if complaint.serious else ("!", "warning: ")
        _line(f"{mark} {part.part:<10}  {word}{complaint.found}")
        _line(f"  {'':<10}  remedy: {complaint.remedy}")


def _line(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
