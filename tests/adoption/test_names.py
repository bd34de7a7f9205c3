"""`DATABASE_SCHEMA`: the whole schema under another name, and no word replaced that is not one."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from sqlalchemy import Engine, make_url

from app import audit, database, migrations
from app.environment import SettingsError
from app.settings import DatabaseSettings
from app.store import catalogue
from dev.servers.postgres import Postgres
from tests.world import World

ELSEWHERE = "elsewhere"
DEFINED = """
    SELECT pg_get_constraintdef(oid) AS sql FROM pg_constraint
    WHERE connamespace = 'calendar'::regnamespace
    UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc
    WHERE pronamespace = 'calendar'::regnamespace
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'calendar'
    UNION ALL SELECT table_name || ' ' || column_name || ' ' || data_type
    FROM information_schema.columns WHERE table_schema = 'calendar'
    ORDER BY 1
"""


@pytest.fixture
def elsewhere(postgres: Postgres) -> Iterator[Engine]:
    """Migrated, in a database without a schema of our name."""
    name = f"elsewhere_{uuid4().hex[:8]}"
    url = make_url(postgres.create_database(name)).set(drivername="postgresql+psycopg2")
    made = database.engine(url.update_query_dict({"schema": ELSEWHERE}), 6)
    migrations.apply(made)
    yield made
    made.dispose()
    postgres.drop_database(name)


def test_everything_stands_under_the_other_name_and_is_the_same(
    elsewhere: Engine, world: World
) -> None:
    there = [row["sql"] for row in World(elsewhere).all(DEFINED)]
    assert there == sorted(database.in_schema(row["sql"], ELSEWHERE) for row in world.all(DEFINED))
    assert (
        World(elsewhere).all("SELECT FROM pg_namespace WHERE nspname = concat('calen', 'dar')")
        == []
    )


def test_cycle_audit_and_the_way_back_are_there_too(elsewhere: Engine) -> None:
    other = World(elsewhere)
    other.appointment()
    assert other.run().expired == 1
    with elsewhere.connect() as connection:
        assert catalogue.not_at_work(connection) == []
        connection.rollback()
        results = audit.run(connection, audit.CHECKS, audit.AuditOptions().values)
        assert [one.check.name for one in results if one.violations] == []
    assert migrations.revision(elsewhere) == "0002"
    migrations.apply(elsewhere)
    migrations.revert(elsewhere, "base")
    assert migrations.revision(elsewhere) is None


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT FROM calendar.appointments a", "SELECT FROM elsewhere.appointments a"),
        ("to_regclass('calendar.' || name)", "to_regclass('elsewhere.' || name)"),
        ("nspname = 'calendar'", "nspname = 'elsewhere'"),
        ("GRANT USAGE ON SCHEMA calendar TO me", "GRANT USAGE ON SCHEMA elsewhere TO me"),
        ("topic LIKE 'pin.calendar.%'", "topic LIKE 'pin.calendar.%'"),
        ("crm_calendar.appointments", "crm_calendar.appointments"),
        ('"calendar".appointments', '"calendar".appointments'),
        ("the calendar's own application", "the calendar's own application"),
        ("It is in the calendar. So", "It is in the calendar. So"),
    ],
)
def test_only_the_schemas_own_name_is_replaced(sql: str, wanted: str) -> None:
    assert database.in_schema(sql, ELSEWHERE) == wanted


@pytest.mark.parametrize("value", ["Booking", "b-c", "b.c", "pg_temp", "1st", "a" * 64, "x;y"])
def test_a_name_that_is_not_plain_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://h/x")
    monkeypatch.setenv("DATABASE_SCHEMA", value)
    with pytest.raises(SettingsError, match="DATABASE_SCHEMA is wrong: it must be a plain name"):
        DatabaseSettings.load()


def test_the_address_does_not_name_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://h/x?schema=booking")
    with pytest.raises(SettingsError, match="DATABASE_SCHEMA"):
        DatabaseSettings.load()
