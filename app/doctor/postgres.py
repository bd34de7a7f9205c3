"""PostgreSQL: whether it can be reached, is the right server, and has what the product needs."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from app import database, schema
from app.doctor import adoption, objects, role, session, upkeep
from app.doctor.complaint import Complaint, NotExamined
from app.doctor.settings import of
from app.settings import DatabaseSettings
from app.store import errors, server
from app.store.server import Server

OLDEST = 140_000
"""PostgreSQL 14: the first with `client_connection_check_interval`."""
_CONNECT_SECONDS = "5"
_NO_ROOM = "too many (connections|clients)|connection slots are reserved"
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
        "a pooler refuses what a session asks for",
        f"let the pooler ignore options (ignore_startup_parameters) and run {role.FILE}",
    ),
    "certificate|SSL": ("TLS fails", "see to sslmode and sslrootcert"),
}
"""What libpq says, and what it means. Its own words may hold parts of a misspelt address."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One look, in a transaction of its own."""

    what: str
    look: Callable[[Connection], Iterable[Complaint]]
    as_written: bool = False
    """The schema's name is its own already."""


def complaints() -> Iterator[Complaint]:
    """What is wrong with PostgreSQL, or with the way there."""
    url = of(DatabaseSettings).url
    yield from session.transport(url)
    parts = [
        _Part("The server", lambda connection: judged(server.server(connection))),
        _Part("The session", lambda connection: session.complaints(connection, url)),
        _Part("The schema", objects.complaints),
        _Part("The adopted schema", adoption.complaints, as_written=True),
        _Part("The role", role.complaints),
        *(_Part("The server", look) for look in upkeep.LOOKS),
    ]
    with _engine(url) as engine:
        try:
            connection = engine.connect()
        except SQLAlchemyError as error:
            yield refused(error)
            return
        with connection:
            for part in parts:
                yield from _examined(connection, part)
                if connection.invalidated:
                    return


@contextmanager
def looking() -> Iterator[Connection]:
    """A transaction for reading the work's state; NotExamined when there is none to read."""
    with _engine(of(DatabaseSettings).url) as engine:
        try:
            with engine.connect() as connection, server.look(connection):
                schema.check(connection)
                yield connection
        except SQLAlchemyError as error:
            raise NotExamined(errors.sentence(error)) from None
        except schema.SchemaError as error:
            raise NotExamined(str(error)) from None


@contextmanager
def _engine(url: URL) -> Iterator[Engine]:
    """Connections of ours are bounded, whatever the URL says."""
    made = database.engine(url.update_query_dict({"connect_timeout": _CONNECT_SECONDS}), 1)
    try:
        yield made
    finally:
        made.dispose()


def _examined(connection: Connection, part: _Part) -> list[Complaint]:
    try:
        with server.look(connection):
            found = list(part.look(connection))
    except SQLAlchemyError as error:
        return [
            Complaint(
                f"{part.what} could not be examined: {errors.sentence(error)}",
                "Mend what else is told, and ask again.",
            )
        ]
    schema_name = database.schema_of(connection)
    return found if part.as_written else [_spelled(one, schema_name) for one in found]


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
            " (CONNECTION LIMIT), or end sessions that nobody needs.",
        )
    for words, (found, remedy) in _REFUSALS.items():
        if re.search(words, said):
            return Complaint(
                f"DATABASE_URL leads to no connection: {found}.",
                f"Correct DATABASE_URL{f', or {remedy}' if remedy else ''}.",
            )
    return Complaint(errors.sentence(error), "Correct DATABASE_URL, or start PostgreSQL.")
