"""The database as the judges see it: their own connections, and one snapshot for all they ask."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

JUDGES = "chaos-judge"
PRODUCT = "calendar"
"""What the product calls itself in pg_stat_activity."""

QUIET = "-c client_min_messages=error"
"""A server that is shut down would tell our terminal so."""

_LOOK = 0.1  # seconds


def engine_for(url: str) -> Engine:
    """No pool: what was connected before a fault says nothing about the time after it."""
    address = make_url(url).set(drivername="postgresql+psycopg2")
    arguments = {"application_name": JUDGES, "connect_timeout": 5, "options": QUIET}
    return create_engine(address, poolclass=NullPool, connect_args=arguments)


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """All that is asked in the block is of one moment."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        yield connection


def rows(connection: Connection, sql: str, **values: Any) -> list[Any]:
    """Every row."""
    return list(connection.execute(text(sql), values))


def value(connection: Connection, sql: str, **values: Any) -> Any:
    """The only value of the only row."""
    return connection.execute(text(sql), values).scalar_one()


def now(engine: Engine) -> datetime:
    """PostgreSQL's time: the one clock."""
    with engine.connect() as connection:
        found: datetime = value(connection, "SELECT clock_timestamp()")
    return found


def wait(true: Callable[[], object], seconds: float) -> bool:
    """Look until it is true or the time is up; a server that is away counts as not yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if true():
                return True
        except OperationalError:
            pass
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK)
