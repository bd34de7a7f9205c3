"""`python -m dev.up`: the whole product in the foreground, at its real pace, until Ctrl-C.

PostgreSQL (its data survives), Valkey and Kafka, or those that DATABASE_URL, CELERY_BROKER_URL and
KAFKA_BOOTSTRAP_SERVERS name; beat, a worker whose log is shown, and Flower. It lives in `.run/up`
on ports that people can remember, or in the directory that is its argument on any ports.
"""

import sys
from pathlib import Path

from dev.processes import ROOT, Ending, Failure, end_on_signals, shown
from dev.servers.process import ServerError


def main() -> None:
    """Bring it up and stay; 0 after Ctrl-C or SIGTERM, 1 when a part died."""
    end_on_signals()
    elsewhere = sys.argv[1:]
    directory = Path(elsewhere[0]).resolve() if elsewhere else ROOT / ".run" / "up"
    try:
        _stay(directory, memorable=not elsewhere)
    except (ServerError, Failure) as error:
        sys.exit(f"{error}\nThe logs are in {shown(directory)}.")
    except SystemExit as leaving:
        if isinstance(leaving.code, str):  # a sentence: what is wrong
            raise
        print("Everything is stopped.")


def _stay(directory: Path, *, memorable: bool) -> None:
    # Slow to import, and Ctrl-C may come meanwhile.
    from rich.console import Console  # noqa: PLC0415
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    from app.environment import SettingsError  # noqa: PLC0415
    from app.store import errors  # noqa: PLC0415
    from dev.up_product import MEMORABLE, Up  # noqa: PLC0415

    try:
        with Ending() as ending:
            Up(Console(highlight=False), ending, directory, MEMORABLE if memorable else {}).stay()
    except SettingsError as error:
        sys.exit(str(error))
    except SQLAlchemyError as error:
        sys.exit(errors.sentence(error))


if __name__ == "__main__":
    main()
