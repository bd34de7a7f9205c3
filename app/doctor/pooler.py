"""A pooler between the product and PostgreSQL, as PgBouncer: whether the settings suit it."""

from collections.abc import Iterator

from sqlalchemy import Connection, Engine

from app.doctor.complaint import Complaint
from app.settings import DatabaseSettings
from app.store import server

VARIABLE = "DATABASE_POOL_MODE"


def complaints(
    engine: Engine, connection: Connection, settings: DatabaseSettings
) -> Iterator[Complaint]:
    """What is wrong with the mode that was chosen; `engine` has room for one more connection."""
    pooled = server.pooled(connection)
    if settings.session and pooled:
        with engine.connect() as another:
            changes = server.sessions_change(connection, another)
        if changes:
            yield Complaint(
                "This is a pooler in transaction mode, as PgBouncer's: what is prepared or set on"
                " a connection is lost, or met by somebody else.",
                f"Set {VARIABLE}=transaction.",
            )
    if not settings.session and not pooled:
        yield Complaint(
            f"{VARIABLE} is transaction, and there is no pooler: every statement is planned anew"
            " each time, for nothing.",
            f"Unset {VARIABLE}.",
            serious=False,
        )
    if not settings.session and "options" in settings.url.query:
        yield Complaint(
            "DATABASE_URL has options: they are set on a session, which a pooler in transaction"
            " mode does not keep.",
            "Take them out, and set them on the role.",
        )
