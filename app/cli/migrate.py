"""`migrate`: bring the schema up to date, or adopt one that is there already."""

import sys
from typing import TYPE_CHECKING

import typer

from app.cli.desk import console, engine, interruptible

if TYPE_CHECKING:
    from app.adoption.plan import Plan


def migrate(back_to: str | None, *, adopt: bool, guards: bool, dry_run: bool) -> None:
    """Bring the schema up to date. Safe to repeat, and when several start it at once."""
    if not adopt and (guards or dry_run):
        console.print("--guards and --dry-run go with --adopt.")
        raise typer.Exit(2)
    if adopt and back_to is not None:
        console.print("--adopt goes without --back-to.")
        raise typer.Exit(2)
    if adopt:
        with interruptible():
            _adopt(guarded=guards, dry_run=dry_run)
    else:
        _migrate(back_to)


def _migrate(back_to: str | None) -> None:
    from alembic.util import CommandError  # noqa: PLC0415 - Alembic is slow to import

    from app import migrations  # noqa: PLC0415

    before = migrations.revision(engine())
    if back_to is None:
        migrations.apply(engine())
    else:
        try:
            migrations.revert(engine(), back_to)
        except CommandError as error:  # no such revision, or not an older one
            sys.exit(f"{error}.")
    after = migrations.revision(engine())
    if before == after:
        console.print(f"The schema is at revision {after}: nothing to do.")
    else:
        console.print(f"The schema went from revision {before or 'none'} to {after or 'none'}.")


def _adopt(*, guarded: bool, dry_run: bool) -> None:
    from app.adoption import work  # noqa: PLC0415
    from app.adoption.plan import plan  # noqa: PLC0415

    if dry_run:
        with engine().begin() as connection:
            found = plan(connection)
    else:
        found = work.adopt(engine(), lambda made: _line(f"made      {made}"), guarded=guarded)
    if found.obstacles:
        _refuse(found)
    if dry_run:
        _would(found, guarded=guarded)
    elif not found.makes_tables and not found.steps:
        _line(f"The schema {found.schema} is adopted, and nothing is missing.")
    else:
        _line(f"The schema {found.schema} is adopted.")
    _left()
    if dry_run:
        _line("Nothing was changed.")


def _refuse(found: "Plan") -> None:
    for one in found.obstacles:
        _line(f"obstacle  {one.found}")
        _line(f"          remedy: {one.remedy}")
    sys.exit(f"The schema {found.schema} cannot be adopted as it is. Nothing was changed.")


def _would(found: "Plan", *, guarded: bool) -> None:
    if found.makes_tables:
        _line(f"would make  our own tables in the schema {found.schema}")
    for step in found.steps:
        _line(f"would make  {step.sql}")
    for guard in found.guards if guarded else ():
        for sql in (guard.first, *guard.then):
            if sql:
                _line(f"would make  {sql}")


def _left() -> None:
    """What stays with the adopter: guards that are not at work, and the rows that break them."""
    from app.adoption import work  # noqa: PLC0415

    left = work.unguarded(engine())
    for guard, broken in left:
        if broken:
            rows = "1 row breaks it" if broken == 1 else f"{broken:,} rows break it"
            _line(f"left      {guard.named} is {guard.state}: {rows}")
    if any(broken for _guard, broken in left):
        _line("          `python -m app verify` lists such rows; mend them, then --adopt --guards")
    if free := [guard for guard, broken in left if not broken]:
        _line(f"left      {len(free)} guards that no row breaks: `--adopt --guards` makes them")


def _line(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False)
