"""A calendar of two million appointments and an outbox of two million messages, made once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
from sqlalchemy import Engine, text

from app.socket_timeout import TimedConnection
from dev.servers.postgres import Postgres
from tests.conftest import TEMPLATE, engine_for
from tests.world import World

ROWS = 2_000_000
OVERDUE = 4_000

_NUMBERED = "SELECT n, lpad(to_hex(n), 32, '0')::uuid AS id FROM generate_series(1, {}) n OFFSET 0"

_PARTS = f"""
INSERT INTO calendar.availability_slots (id, tenant_id, agent_id, status, start_at, end_at)
SELECT id, id, id, 'Booked', now() + interval '2 days', now() + interval '3 days'
FROM ({_NUMBERED.format(OVERDUE)}) made;
INSERT INTO calendar.calendar_events (id, tenant_id, start_at, end_at)
SELECT id, id, now() + interval '2 days', now() + interval '3 days'
FROM ({_NUMBERED.format(OVERDUE)}) made;
INSERT INTO calendar.event_reminders (calendar_event_id, remind_at)
SELECT id, now() FROM ({_NUMBERED.format(OVERDUE)}) made, generate_series(1, 3)
"""
_APPOINTMENTS = f"""
INSERT INTO calendar.appointments (id, tenant_id, slot_id, calendar_event_id, investor_id,
    agent_id, status, pending_expires_at)
SELECT id, id, id, id, id, id,
    CASE WHEN n <= {OVERDUE} OR n % 10 = 0 THEN 'Pending' ELSE 'Declined' END,
    now() + (n - {OVERDUE}) * interval '1 minute' + interval '1 hour' * sign(n - {OVERDUE} - 0.5)
FROM ({_NUMBERED.format(ROWS)}) made
"""
_MESSAGES = f"""
INSERT INTO calendar.outbox_messages (message_id, topic, key, payload, published_at)
SELECT id, 'published', n::text, '{{}}', now() - interval '6 days' + n * interval '1 ms'
FROM ({_NUMBERED.format(ROWS)}) made
"""


def _fill(engine: Engine, statements: str) -> None:
    with engine.begin() as connection:
        cast("TimedConnection", connection.connection.dbapi_connection).seconds = None
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL session_replication_role = replica"))  # no triggers
        for statement in statements.split(";"):
            connection.execute(text(statement))


@pytest.fixture(scope="session")
def crowded(postgres: Postgres) -> Iterator[World]:
    """Whoever works on it takes some of the overdue appointments, or adds messages of its own."""
    postgres.create_database("crowded", template=TEMPLATE)
    world = World(engine_for(postgres, "crowded"))
    for table in ("appointments", "outbox_messages"):  # their statistics are the tests' own
        world.execute(f"ALTER TABLE calendar.{table} SET (autovacuum_enabled = off)")
    with ThreadPoolExecutor() as threads:  # side by side: half the time
        parts = (_PARTS, _APPOINTMENTS, _MESSAGES)
        for fill in [threads.submit(_fill, world.engine, part) for part in parts]:
            fill.result()
    yield world
    world.engine.dispose()
    postgres.drop_database("crowded")
