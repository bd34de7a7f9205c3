"""PostgreSQL: whether it can be reached, is the right server, and has what the product needs."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from app import database, schema
from app.doctor import adoption, objects, pooler, role, session, upkeep
from app.doctor.complaint import Complaint, NotExamined
from app.doctor.settings import of
from app.settings import DatabaseSettings
from app.store import errors, server
from app.store.server import Server

OLDEST = 140_000
"""PostgreSQL 14: the first with `client_connection_check_interval`."""
_CONNECT_SECONDS = "5"
_NO_ROOM = (
    "too many (connections|clients)|connection slots are reserved|no more connections allowed"
)
_REFUSALS = {
    "Connection refused": ("nobody listens at its host and port", "start PostgreSQL"),
    "could not translate host name": ("its host is unknown here", "see to the name service"),
    "timeout expired": ("its host does not answer", "let this host through the firewall"),
    "password authentication failed": ("the user or the password is refused", ""),
    "no password supplied": ("a password is wanted, and it has none", ""),
    "no pg_hba.conf entry": ("its user may not come from here", "add a line to pg_hba.conf"),
    "is not permitted to log in": ("its role may not log in", "`ALTER ROLE … LOGIN`"),
    'role ".*" does not exist': ("its role does not exist", f"make the role with {role.FILE}"),
    'database ".*" does not exist': ("its database does not exist", "create it, then migrate"),
    "unsupported startup parameter": (
        "a pooler refuses what a session is to be set to",
        f"set {pooler.VARIABLE}=transaction and make the role with {role.FILE}",
    ),
    "certificate|SSL": ("TLS fails", "see to sslmode and sslrootcert"),
}
"""What libpq says, and what it means. Its own words may hold parts of a misspelt address."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One look, in a transaction of its own."""

    what: str
    look: Callable[[Connection], Iterable[Complaint]]
    limit: str | None = server.LIMIT
    as_written: bool = False
    """The schema's name is its own already."""

    def complaints(self, connection: Connection) -> Iterator[Complaint]:
        """What is seen, about the schema by its own name."""
        with server.look(connection, self.limit):
            found = self.look(connection)
            name = database.schema_of(connection)
            yield from found if self.as_written else (_spelled(one, name) for one in found)


def complaints() -> Iterator[Complaint]:
    """What is wrong with PostgreSQL, or with the way there."""
    settings = of(DatabaseSettings)
    yield from session.transport(settings.url)
    parts = [
        _Part("The server", lambda connection: judged(server.server(connection))),
        _Part("The session", lambda found: session.complaints(found, settings), limit=None),
        _Part("The schema", objects.complaints),
        _Part("The adopted schema", adoption.complaints, as_written=True),
        _Part("The role", role.complaints),
        *(_Part("The server", look) for look in upkeep.LOOKS),
    ]
    with _engine(settings) as engine:
        try:
            connection = engine.connect()
        except SQLAlchemyError as error:
            yield refused(error)
            return
        with connection:
            yield from _examined("The pooler", pooler.complaints(engine, connection, settings))
            for part in parts:
                yield from _examined(part.what, part.complaints(connection))
                if connection.invalidated:
                    return


@contextmanager
def looking() -> Iterator[Connection]:
    """A transaction for reading the work's state; NotExamined when there is none to read."""
    with _engine(of(DatabaseSettings)) as engine:
        try:
            with engine.connect() as connection, server.look(connection):
                schema.check(connection)
                yield connection
        except SQLAlchemyError as error:
            raise NotExamined(errors.sentence(error)) from None
        except schema.SchemaError as error:
            raise NotExamined(str(error)) from None


@contextmanager
def _engine(settings: DatabaseSettings) -> Iterator[Engine]:
    """Connections of ours are bounded, whatever the URL says."""
    url = settings.url.update_query_dict({"connect_timeout": _CONNECT_SECONDS})
    made = database.engine(url, 2, session=settings.session)
    try:
        yield made
    finally:
        made.dispose()


def _examined(what: str, complaints: Iterator[Complaint]) -> list[Complaint]:
    try:
        return list(complaints)
    except SQLAlchemyError as error:
        return [
            Complaint(
                f"{what} could not be examined: {errors.sentence(error)}",
                "Mend what else is told, and ask again.",
            )
        ]


def _spelled(one: Complaint, schema_name: str) -> Complaint:
    found, remedy = (database.in_schema(said, schema_name) for said in (one.found, one.remedy))
    return replace(one, found=found, remedy=remedy)


def judged(found: Server) -> Iterator[Complaint]:
    """Whether it is a server that the product can work on."""
    if found.version < OLDEST:
        yield Complaint(
            f"PostgreSQL is of version {found.version // 10_000}; 14 is the oldest that serves.",
            "Upgrade it.",
        )
    if found.standby:
        yield Complaint(
            "PostgreSQL is a standby: nothing can be written there.",
            "Let DATABASE_URL name the primary; with several hosts add"
            " `target_session_attrs=read-write`.",
        )
    yield from upkeep.clock(found.now)


def refused(error: SQLAlchemyError) -> Complaint:
    """Why there is no connection, in our words."""
    said = str(getattr(error, "orig", ""))
    if re.search(_NO_ROOM, said):
        return Complaint(
            "PostgreSQL has no connection left for this role.",
            "Raise the limit of the server (max_connections), the database or the role"
            " (CONNECTION LIMIT), or of a pooler (max_client_conn), or end sessions that nobody"
            " needs.",
        )
    for words, (found, remedy) in _REFUSALS.items():
        if re.search(words, said):
            return Complaint(
                f"DATABASE_URL leads to no connection: {found}.",
                f"Correct DATABASE_URL{f', or {remedy}' if remedy else ''}.",
            )
    return Complaint(errors.sentence(error), "Correct DATABASE_URL, or start PostgreSQL.")
