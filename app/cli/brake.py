"""`pause` and `resume`: the brake. Expiry cannot be undone, so a human can stop it."""

import getpass
import os

from app.cli.desk import connected, console
from app.store import brake


def pause(reason: str) -> None:
    """Pull the brake: no appointment expires until `resume`; a running cycle obeys in a second."""
    with connected() as connection:
        pulled = brake.pull(connection, reason, _who())
    console.print(f"No appointment expires now: {pulled.sentence}.")


def resume() -> None:
    """Release the brake: the next cycle goes on with the oldest appointments first."""
    with connected() as connection:
        was_on = brake.release(connection)
    console.print("The brake is off." if was_on else "The brake was not on.")


def _who() -> str:
    """The account's name, or its number: in a container it may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the first before Python 3.13, the second since
        return f"uid {os.getuid()}"
