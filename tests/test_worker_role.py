"""The shipped least-privilege role is enough for the jobs, and for nothing else (D5, security)."""

import subprocess
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import ProgrammingError

from app import database
from app.kafka import Sender
from app.publish import drain
from app.report import DrainOptions
from app.retention import RetentionOptions, sweep
from app.store import privileges, status
from dev.servers.kafka import Kafka
from dev.servers.postgres import Postgres
from tests import worker_role
from tests.neighbour import holding
from tests.world import World

ROLE = "calendar_worker"


def as_owner(postgres: Postgres, url: str, statement: str) -> None:
    subprocess.run([postgres.bin_dir / "psql", url, "-q", "-c", statement], check=True)


@pytest.fixture
def worker(postgres: Postgres, database_name: str) -> Iterator[Engine]:
    """The test's database as the worker's role sees it."""
    url = postgres.url(database_name)
    for _ in range(2):  # it can be run again
        worker_role.make(postgres, database_name, ROLE)
    as_owner(postgres, url, f"ALTER ROLE {ROLE} LOGIN")
    address = make_url(url).set(drivername="postgresql+psycopg2", username=ROLE)
    made = database.engine(address, 8)
    yield made
    made.dispose()


def test_the_jobs_do_all_their_work_as_that_role(
    world: World, worker: Engine, kafka: Kafka
) -> None:
    as_worker = World(worker)
    poison, healthy = world.appointment(slot_status="Available"), world.appointment()
    report = as_worker.run()
    assert (report.expired, report.failed, report.detail) == (1, 1, None)
    assert world.status(healthy) == "Expired"
    assert list(world.failures()) == [poison.appointment]
    world.execute("UPDATE calendar.availability_slots SET status = 'Booked'")
    assert as_worker.run().expired == 1
    assert not world.failures()
    sender = Sender({"bootstrap.servers": kafka.bootstrap})
    assert drain(worker, sender, DrainOptions(), "as the role").published == 4
    sender.close()
    world.execute("UPDATE calendar.outbox_messages SET published_at = now() - interval '30 days'")
    assert sweep(worker, RetentionOptions())["OutboxMessagesRemoved"] == 4


@pytest.mark.parametrize(
    "forbidden",
    [
        "DELETE FROM calendar.appointments",
        "UPDATE calendar.appointments SET pending_expires_at = now()",
        "UPDATE calendar.appointments SET investor_id = agent_id",
        "UPDATE calendar.availability_slots SET start_at = now()",
        "UPDATE calendar.outbox_messages SET payload = '{}'",
        "INSERT INTO calendar.appointments (id) VALUES (gen_random_uuid())",
        "CREATE TABLE calendar.mine (id int)",
        "DROP TABLE calendar.outbox_messages",
        "ALTER TABLE calendar.appointments DROP COLUMN version",
        "UPDATE calendar.schema_level SET level = 99",
    ],
)
def test_the_role_can_do_nothing_else(worker: Engine, forbidden: str) -> None:
    with (
        pytest.raises(ProgrammingError, match=r"permission denied|must be owner"),
        worker.begin() as connection,
    ):
        connection.execute(text(forbidden))


def test_other_sessions_are_hidden_from_the_role_unless_it_is_allowed_to_see_them(
    worker: Engine, engine: Engine, postgres: Postgres, database_name: str
) -> None:
    def oldest_transaction() -> float | None:
        with worker.begin() as connection:
            return status.read(connection).oldest_transaction_seconds

    with holding(engine, "SELECT txid_current()"):
        assert oldest_transaction() is None
        url = postgres.url(database_name)
        as_owner(postgres, url, f"GRANT pg_read_all_stats TO {ROLE}")
        try:
            assert (oldest_transaction() or 0) > 0
        finally:
            as_owner(postgres, url, f"REVOKE pg_read_all_stats FROM {ROLE}")


def test_the_limits_of_a_session_stand_on_the_role_too(
    worker: Engine, postgres: Postgres, database_name: str
) -> None:
    """For a pooler that passes no options on: each of ours is on the role, with the same value."""
    with worker.begin() as connection:
        on_the_role = connection.execute(
            text(
                "SELECT unnest(setconfig) FROM pg_db_role_setting s JOIN pg_roles r"
                " ON r.oid = s.setrole WHERE rolname = :role"
            ),
            {"role": ROLE},
        ).scalars()
        found = dict(item.split("=", 1) for item in on_the_role)
    assert {name.lower(): value for name, value in found.items()} == database.SESSION


def test_the_doctor_knows_exactly_what_the_file_grants(worker: Engine) -> None:
    """Alembic's own table is read by who migrates."""
    with worker.begin() as connection:
        granted = connection.execute(
            text(
                """SELECT privilege_type, table_name, '' FROM information_schema.table_privileges
                WHERE table_schema = 'calendar' AND grantee = :role
                  AND table_name <> 'schema_revision'
                UNION ALL
                SELECT privilege_type, table_name, column_name
                FROM information_schema.column_privileges c
                WHERE table_schema = 'calendar' AND grantee = :role AND NOT EXISTS (
                    SELECT FROM information_schema.table_privileges t
                    WHERE t.table_schema = c.table_schema AND t.table_name = c.table_name
                      AND t.grantee = c.grantee AND t.privilege_type = c.privilege_type)"""
            ),
            {"role": ROLE},
        ).all()
        assert privileges.lacking(connection) == []
    listed = [
        (grant.privilege, grant.table, column)
        for grant in privileges.GRANTS
        for column in grant.columns or ("",)
    ]
    assert sorted(map(tuple, granted)) == sorted(listed)


def test_our_triggers_ask_no_rights_of_the_calendars_own_application(
    world: World, postgres: Postgres, database_name: str
) -> None:
    """It confirms appointments and writes reminders; our tables are not its business."""
    made = world.appointment(slot_status="Available")
    world.run()
    assert list(world.failures()) == [made.appointment]
    role = f"calendar_app_{database_name}"
    world.execute(f"CREATE ROLE {role} LOGIN")
    world.execute(f"GRANT USAGE ON SCHEMA calendar TO {role}")
    world.execute(f"GRANT SELECT, UPDATE ON calendar.appointments TO {role}")
    world.execute(f"GRANT INSERT ON calendar.event_reminders TO {role}")
    url = make_url(postgres.url(database_name))
    app = World(database.engine(url.set(drivername="postgresql+psycopg2", username=role), 1))
    app.execute("UPDATE calendar.appointments SET status = 'Confirmed'")
    assert not world.failures()
    app.execute(
        """INSERT INTO calendar.event_reminders (calendar_event_id, remind_at)
        VALUES (:event, now())""",
        event=made.event,
    )
    app.engine.dispose()
    world.execute(f"DROP OWNED BY {role}")
    world.execute(f"DROP ROLE {role}")
