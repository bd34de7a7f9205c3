"""The operator's commands: `python -m app COMMAND`.

Wrong input ends with exit code 2, a server away or a refusal with 1, each in one plain sentence.
What a command needs is imported when it runs, so that `--help` waits for nothing.
"""

import sys

import typer

from app.settings import SettingsError

app = typer.Typer(
    help="Look after the running product: appointment expiry and its outbox.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run a command; known troubles end in one sentence on stderr."""
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    from app.cli import (  # noqa: PLC0415
        brake,
        doctor,
        expire,
        health,
        migrate,
        outbox,
        runs,
        sample,
        status,
        verify,
        why,
    )
    from app.domain.law import Refusal  # noqa: PLC0415
    from app.schema import SchemaError  # noqa: PLC0415
    from app.store import errors  # noqa: PLC0415

    for command in (
        migrate.migrate,
        sample.sample,
        status.status,
        runs.runs,
        brake.pause,
        brake.resume,
        health.health,
        verify.verify,
        why.why,
        expire.expire,
        doctor.doctor,
    ):
        app.command()(command)
    app.add_typer(outbox.app, name="outbox")
    try:
        app(prog_name="python -m app")
    except (SettingsError, SchemaError, Refusal) as trouble:
        sys.exit(str(trouble))
    except SQLAlchemyError as error:
        sys.exit(errors.sentence(error))
