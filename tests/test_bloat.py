"""What changes often stays small: in place where it can, removed where it cannot (O5)."""

import time

import pytest
from sqlalchemy import Engine

from app import retention
from app.store import outbox as store
from dev.bench import backlog
from tests.neighbour import wait_until
from tests.publish.outbox_world import OutboxWorld
from tests.world import World

COUNT = 400
DAYS, KEPT_DAYS, A_DAYS_MESSAGES = 12, 3, 500


def updates(world: World) -> dict[str, tuple[int, float]]:
    """By table: how many updates, and which share of them was HOT (no index entry written)."""
    rows = world.all(
        """SELECT relname, n_tup_upd, n_tup_hot_upd::float / n_tup_upd AS hot
        FROM pg_stat_user_tables WHERE n_tup_upd > 0"""
    )
    return {row["relname"]: (row["n_tup_upd"], row["hot"]) for row in rows}


def test_an_expiry_changes_slots_events_and_reminders_in_place(
    world: World, engine: Engine
) -> None:
    backlog.bookings(engine, COUNT)
    for _ in range(2):
        # one connection: beside others, a page is cleared when all of them have moved on
        assert world.run(batch_size=COUNT // 2, connections=1).expired == COUNT // 2
    engine.dispose()  # a backend that leaves has told all it has done
    wait_until(lambda: updates(world).get("event_reminders", (0,))[0] == 2 * COUNT, "statistics")
    found = updates(world)
    assert found["availability_slots"][1] >= 0.95
    assert found["event_reminders"][1] >= 0.95
    assert found["calendar_events"][1] >= 0.75
    # Its status stands in the predicates of its indexes: it can never be.
    assert found["appointments"] == (COUNT, 0)


def pages(world: World) -> int:
    found = world.one("SELECT pg_relation_size('calendar.outbox_messages') / 8192 AS pages")
    return int(found["pages"])


def vacuum(engine: Engine) -> None:
    """As autovacuum would, by the table's own settings."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM calendar.outbox_messages")


@pytest.mark.timeout(60)
def test_o5_the_outbox_stays_as_large_as_what_it_keeps(engine: Engine) -> None:
    outbox = OutboxWorld(engine, "topic")
    began, sizes = [], []
    for day in range(DAYS):
        began.append(time.time())
        outbox.add_all([str(number) for number in range(A_DAYS_MESSAGES)])
        with engine.begin() as connection:
            rows = store.claim(connection, 0, outbox.now(), A_DAYS_MESSAGES)
            store.mark_published(connection, [row.id for row in rows])
        if day >= KEPT_DAYS:
            kept = (time.time() - began[day - KEPT_DAYS + 1]) / 86_400
            removed = retention.sweep(engine, retention.RetentionOptions(outbox_days=kept))
            assert removed["OutboxMessagesRemoved"] == A_DAYS_MESSAGES
        vacuum(engine)
        sizes.append(pages(outbox))
    assert sizes[-1] <= 1.1 * sizes[KEPT_DAYS + 1], sizes


def test_the_two_large_tables_are_vacuumed_long_before_a_fifth_of_them_is_dead(
    world: World,
) -> None:
    rows = world.all(
        """SELECT relname FROM pg_class, pg_options_to_table(reloptions)
        WHERE option_name = 'autovacuum_vacuum_scale_factor' AND option_value::float <= 0.02
          AND relnamespace = 'calendar'::regnamespace"""
    )
    assert {row["relname"] for row in rows} == {"appointments", "outbox_messages"}
