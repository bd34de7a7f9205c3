"""S5: a server that is frozen behind an open connection costs a bounded wait, never a hang."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import psycopg2
import pytest
from sqlalchemy import Connection, Engine, make_url, text
from sqlalchemy.exc import OperationalError

from app import database
from app.socket_timeout import TimedConnection
from dev.servers.postgres import Postgres
from dev.servers.proxy import Proxy
from tests.neighbour import Neighbour


@dataclass
class Line:
    """The product's engine, at the end of a line that can go dead."""

    engine: Engine
    proxy: Proxy


@pytest.fixture
def line(postgres: Postgres, database_name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """One whose bound is two seconds: a server's limit of one, and one more."""
    monkeypatch.setattr(database, "ANSWER_SECONDS", 1.0)
    with Proxy(postgres.port) as proxy:
        url = make_url(postgres.url(database_name)).set(
            drivername="postgresql+psycopg2", port=proxy.port
        )
        engine = database.engine(url.set(query={"options": "-c statement_timeout=1s"}), 3)
        yield Line(engine, proxy)
        engine.dispose()


def dbapi(connection: Connection) -> TimedConnection:
    return cast("TimedConnection", connection.connection.dbapi_connection)


def fetching(connection: Connection) -> Callable[[], object]:
    rows = connection.execute(
        text("SELECT generate_series(1, 100)"), execution_options={"yield_per": 10}
    )
    return rows.fetchall


WAITS: dict[str, Callable[[Connection], Callable[[], object]]] = {
    "a statement": lambda connection: lambda: connection.execute(text("SELECT 1")),
    "a commit": lambda connection: connection.commit,
    "a rollback": lambda connection: connection.rollback,
    "a fetch": fetching,
}


@pytest.mark.parametrize("name", WAITS)
def test_s5_every_wait_for_a_dead_line_ends_and_says_why(line: Line, name: str) -> None:
    with line.engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        wait = WAITS[name](connection)
        assert line.proxy.freeze() == 1
        with pytest.raises((OperationalError, psycopg2.OperationalError)) as lost:
            Neighbour(wait).result()
    assert "no answer within 2 s" in str(lost.value)
    with line.engine.begin() as connection:  # the next one is a new one
        assert connection.execute(text("SELECT 1")).scalar() == 1


def test_s5_an_idle_connection_that_died_costs_its_bound_once(line: Line) -> None:
    with line.engine.connect(), line.engine.connect():
        pass
    assert line.proxy.freeze() == 2

    def next_two() -> None:
        with line.engine.begin() as one, line.engine.begin() as another:
            assert one.execute(text("SELECT 1")).scalar() == 1
            assert another.execute(text("SELECT 1")).scalar() == 1

    Neighbour(next_two).result()


def test_s5_connecting_to_a_frozen_server_ends(line: Line, postgres: Postgres) -> None:
    with line.engine.connect():
        pass
    line.engine.dispose()
    postgres.freeze()
    try:
        with pytest.raises(OperationalError, match="timeout expired"):
            Neighbour(line.engine.connect).result()
    finally:
        postgres.thaw()
    line.engine.connect().close()


def test_a_statement_may_take_what_the_server_allows_it(line: Line) -> None:
    with line.engine.begin() as connection:
        database.allow(connection, "4s")
        connection.execute(text("SELECT pg_sleep(3)"))
        assert dbapi(connection).seconds == 5.0
    with line.engine.begin() as connection, pytest.raises(OperationalError, match="timeout"):
        connection.execute(text("SELECT pg_sleep(3)"))


def test_an_operator_who_takes_the_limit_away_gets_none(
    postgres: Postgres, database_name: str
) -> None:
    url = make_url(postgres.url(database_name)).set(drivername="postgresql+psycopg2")
    engine = database.engine(url.set(query={"options": "-c statement_timeout=0"}), 1)
    with engine.connect() as connection:
        assert dbapi(connection).seconds is None
    engine.dispose()


def test_s5_a_forked_child_has_bounds_of_its_own(line: Line) -> None:
    with line.engine.connect():
        pass
    (to_read, told), (frozen, freeze) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(OperationalError), line.engine.connect() as connection:
            os.write(told, b"connected")
            os.read(frozen, 1)
            try:
                connection.execute(text("SELECT 1"))
            except OperationalError as lost:
                os._exit(0 if "no answer within 2 s" in str(lost) else 2)
        os._exit(1)
    assert os.read(to_read, 100) == b"connected"
    line.proxy.freeze()
    os.write(freeze, b"!")
    assert Neighbour(lambda: os.waitpid(child, 0)).result() == (child, 0)
    for end in (to_read, told, frozen, freeze):
        os.close(end)
