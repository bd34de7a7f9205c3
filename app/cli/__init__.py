"""The operator's commands: `python -m app COMMAND`.

Wrong input ends with exit code 2, a server away or a refusal with 1, each in one plain sentence.
"""

import sys


def main() -> None:
    """Run a command; known troubles end in one sentence on stderr."""
    from app.cli.commands import app

    try:
        app(prog_name="python -m app")
    except Exception as trouble:
        if sentence := _sentence(trouble):
            sys.exit(sentence)
        raise


def _sentence(trouble: Exception) -> str | None:
    """What an operator can do something about; None: a fault of ours, for the traceback."""
    from sqlalchemy.exc import SQLAlchemyError

    from app.domain.law import Refusal
    from app.environment import SettingsError
    from app.schema import SchemaError
    from app.store import errors

    if isinstance(trouble, SettingsError | SchemaError | Refusal):
        return str(trouble)
    return errors.sentence(trouble) if isinstance(trouble, SQLAlchemyError) else None
