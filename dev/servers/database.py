"""Databases of any PostgreSQL server, embedded or given, made and dropped through its URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg2
from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class with a small name
from psycopg2.sql import SQL, Composable, Identifier

_CONNECT_TIMEOUT = 5  # seconds


def database_name(url: str) -> str:
    """Return the name of the database in `url`."""
    return urlsplit(url).path.removeprefix("/")


def with_database(url: str, name: str) -> str:
    """Return `url` with its database replaced by `name`."""
    return urlsplit(url)._replace(path=f"/{name}").geturl()


@contextmanager
def autocommit(url: str) -> Iterator[Cursor]:
    """Connect to `url`, SQLAlchemy's spelling included, outside any transaction."""
    parts = urlsplit(url)
    plain = parts._replace(scheme=parts.scheme.partition("+")[0]).geturl()
    connection = psycopg2.connect(plain, connect_timeout=_CONNECT_TIMEOUT)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


def create_database(url: str, name: str, template: str | None = None) -> str:
    """Create `name` on the server of `url`, as a copy of `template` if given; return its URL.

    Nobody may be connected to the template meanwhile. Errors are psycopg2's.
    """
    statement: Composable = SQL("CREATE DATABASE {}").format(Identifier(name))
    if template is not None:
        statement += SQL(" TEMPLATE {}").format(Identifier(template))
    with autocommit(with_database(url, "postgres")) as cursor:
        cursor.execute(statement)
    return with_database(url, name)


def drop_database(url: str, name: str) -> None:
    """Drop `name` if it exists, ending the sessions that are connected to it."""
    with autocommit(with_database(url, "postgres")) as cursor:
        cursor.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))


def database_exists(url: str, name: str) -> bool:
    """Tell whether the server of `url` has a database `name`."""
    with autocommit(with_database(url, "postgres")) as cursor:
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
        return cursor.fetchone() is not None
