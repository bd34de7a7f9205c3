"""`pause` and `resume`: the brake. Expiry cannot be undone, so a human can stop it."""

import getpass

from app.cli.desk import connected, console
from app.store import brake


def pause(reason: str) -> None:
    """Pull the brake: no appointment expires until `resume`; a running cycle obeys in a second."""
    with connected() as connection:
        pulled = brake.pull(connection, reason, getpass.getuser())
    console.print(f"No appointment expires now: {pulled.sentence}.")


def resume() -> None:
    """Release the brake: the next cycle goes on with the oldest appointments first."""
    with connected() as connection:
        was_on = brake.release(connection)
    console.print("The brake is off." if was_on else "The brake was not on.")
