"""`migrate`: bring the schema up to date."""

import sys

from app.cli.desk import console, engine


def migrate(back_to: str | None) -> None:
    """Bring the schema up to date. Safe to repeat, and when several start it at once."""
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
