"""What the database itself refuses, and how its schema comes and goes (D1-D5)."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

from app import migrations, operations, schema
from app.domain.law import NaiveTimeError, Refusal
from dev.servers.postgres import Postgres
from tests.conftest import engine_for
from tests.neighbour import Neighbour, holding, wait_for_a_waiter
from tests.world import HOUR, MINUTE, World


def refuse(world: World, sql: str, constraint: str, **values: object) -> None:
    with pytest.raises(IntegrityError) as refused:
        world.execute(sql, **values)
    assert refused.value.orig is not None
    assert refused.value.orig.diag.constraint_name == constraint  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("table", "column", "constraint"),
    [
        ("appointments", "status", "appointment_status_known"),
        ("availability_slots", "status", "slot_status_known"),
        ("calendar_events", "status", "event_status_known"),
        ("calendar_events", "origin", "event_origin_known"),
        ("event_reminders", "status", "reminder_status_known"),
    ],
)
def test_d4_an_unknown_status_is_refused(
    world: World, table: str, column: str, constraint: str
) -> None:
    world.appointment()
    refuse(world, f"UPDATE calendar.{table} SET {column} = 'Neverheard'", constraint)


def test_d4_two_active_appointments_on_one_slot_are_refused(world: World) -> None:
    first = world.appointment()
    with pytest.raises(IntegrityError, match="ux_appointments_one_active_per_slot"):
        world.appointment(slot=first.slot, status="Confirmed")
    world.appointment(slot=first.slot, status="Declined")


def test_d4_a_second_message_of_one_change_is_refused(world: World) -> None:
    world.appointment()
    world.run()
    refuse(
        world,
        """INSERT INTO calendar.outbox_messages (message_id, topic, key, payload)
        SELECT message_id, topic, key, payload FROM calendar.outbox_messages LIMIT 1""",
        "one_message_per_change",
    )


def test_d4_negative_lead_times_and_ends_before_starts_are_refused(world: World) -> None:
    world.appointment()
    refuse(
        world,
        "UPDATE calendar.availability_slots SET min_lead_time_minutes = -1",
        "slot_lead_time_not_negative",
    )
    for table, constraint in (
        ("availability_slots", "slot_ends_after_start"),
        ("calendar_events", "event_ends_after_start"),
    ):
        refuse(world, f"UPDATE calendar.{table} SET end_at = start_at - interval '1 s'", constraint)


NO_PENDING = "no_pending_reminder_on_cancelled_event"
REMIND = """INSERT INTO calendar.event_reminders (calendar_event_id, status, remind_at)
    VALUES (:event, 'Pending', now())"""


def test_d4_a_pending_reminder_on_a_cancelled_event_is_refused(world: World) -> None:
    made = world.appointment(event_status="Cancelled", reminders=("Sent",))
    refuse(world, REMIND, NO_PENDING, event=made.event)
    refuse(world, "UPDATE calendar.event_reminders SET status = 'Pending'", NO_PENDING)
    other = world.appointment()
    refuse(
        world,
        "UPDATE calendar.calendar_events SET status = 'Cancelled' WHERE id = :event",
        NO_PENDING,
        event=other.event,
    )


def test_d4_a_reminder_inserted_while_the_cancellation_is_open_waits_and_is_refused(
    world: World, engine: Engine
) -> None:
    """Phantom child."""
    made = world.appointment()
    with holding(
        engine,
        """UPDATE calendar.event_reminders SET status = 'Skipped'
        WHERE calendar_event_id = :event AND status = 'Pending'""",
        "UPDATE calendar.calendar_events SET status = 'Cancelled' WHERE id = :event",
        event=made.event,
    ) as cancelling:
        insert = Neighbour(lambda: world.execute(REMIND, event=made.event))
        wait_for_a_waiter(world.engine)
        cancelling.commit()
        with pytest.raises(IntegrityError, match="pending reminder on a cancelled event"):
            insert.result()


def test_d4_a_cancellation_waits_for_an_open_insert_of_a_reminder(
    world: World, engine: Engine
) -> None:
    """Lock strength: the cycle passes the item over, counts it, and takes it later."""
    made = world.appointment()
    with holding(engine, REMIND, event=made.event) as inserting:
        report = world.run()
        assert (report.expired, report.skipped_locked, report.failed) == (0, 1, 0)
        inserting.commit()
    assert world.run().expired == 1
    assert world.all("SELECT FROM calendar.event_reminders WHERE status = 'Pending'") == []


def test_an_open_insert_of_a_child_of_the_appointment_is_no_obstacle(
    world: World, engine: Engine
) -> None:
    """Lock strength: `FOR KEY SHARE` on the appointment, as a child's foreign key takes it."""
    made = world.appointment()
    with holding(
        engine,
        "SELECT FROM calendar.appointments WHERE id = :id FOR KEY SHARE",
        id=made.appointment,
    ):
        assert world.run().expired == 1


def test_d1_the_deadline_is_computed_when_the_appointment_is_made(world: World) -> None:
    slot = world.appointment(slot_status="Available", status="Declined", lead_minutes=90).slot
    now = world.now()
    made = operations.book(world.engine, slot, uuid4(), now)
    row = world.one("SELECT * FROM calendar.appointments WHERE id = :id", id=made.id)
    assert row["pending_expires_at"] == now + 24 * HOUR
    assert row["created_at"] == now
    statuses = world.all(
        "SELECT status FROM calendar.event_reminders WHERE calendar_event_id = :id",
        id=made.calendar_event_id,
    )
    assert [reminder["status"] for reminder in statuses] == ["Pending", "Pending"]


def test_d1_an_auto_confirmed_appointment_has_no_deadline(world: World) -> None:
    slot = world.appointment(slot_status="Available", status="Declined").slot
    world.execute("UPDATE calendar.availability_slots SET auto_confirm = true")
    made = operations.book(world.engine, slot, uuid4(), world.now())
    assert (made.status, made.pending_expires_at) == ("Confirmed", None)


def test_d1_a_booking_that_would_be_overdue_at_once_is_refused(world: World) -> None:
    made = world.appointment(
        slot_status="Available", status="Declined", starts_in=60 * MINUTE, lead_minutes=90
    )
    with pytest.raises(Refusal, match="lead time begun"):
        operations.book(world.engine, made.slot, uuid4(), world.now())
    assert world.state(made)["slot"][0]["status"] == "Available"


def test_d2_a_naive_time_is_refused_and_changes_nothing(world: World) -> None:
    made = world.appointment()
    before = world.state(made)
    with pytest.raises(NaiveTimeError):
        operations.confirm(world.engine, made.appointment, world.now().replace(tzinfo=None))
    assert world.state(made) == before


def test_d3_the_partial_index_stands_under_its_name(world: World) -> None:
    index = world.one(
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'ix_appointments_pending_expires_at'"
    )["indexdef"]
    assert "(pending_expires_at, id)" in index
    assert "status = 'Pending'" in index


def test_columns_that_are_not_contracted_have_defaults(world: World) -> None:
    """interface.md: a plain INSERT of the listed columns works."""
    contracted = {
        "outbox_messages": {"topic", "key", "payload"},
        "expiry_failures": {
            "appointment_id",
            "rule",
            "first_failed_at",
            "last_failed_at",
            "attempts",
            "last_run_id",
        },
        "job_runs": {"run_id", "job", "started_at"},
    }
    for table, listed in contracted.items():
        needed = world.all(
            """SELECT column_name FROM information_schema.columns
            WHERE table_schema = 'calendar' AND table_name = :table AND is_nullable = 'NO'
              AND column_default IS NULL AND is_identity = 'NO'""",
            table=table,
        )
        assert {row["column_name"] for row in needed} <= listed


@pytest.fixture
def empty(postgres: Postgres) -> Iterator[Engine]:
    """A database without our schema."""
    name = f"empty_{uuid4().hex[:8]}"
    postgres.create_database(name)
    engine = engine_for(postgres, name)
    yield engine
    engine.dispose()
    postgres.drop_database(name)


def tables(engine: Engine) -> set[str]:
    with engine.begin() as connection:
        return set(
            connection.execute(
                text(
                    "SELECT table_name FROM information_schema.tables"
                    " WHERE table_schema = 'calendar'"
                )
            ).scalars()
        )


def test_migrations_go_forward_and_back(empty: Engine) -> None:
    migrations.apply(empty)
    forward = tables(empty)
    assert {"appointments", "outbox_messages", "job_runs", "expiry_failures"} <= forward
    migrations.apply(empty)
    migrations.revert(empty, "base")
    assert tables(empty) == {"schema_revision"}
    migrations.apply(empty)
    assert tables(empty) == forward


def test_two_migrators_of_one_database_take_turns(empty: Engine) -> None:
    migrators = [Neighbour(lambda: migrations.apply(empty)) for _ in range(4)]
    for migrator in migrators:
        migrator.result()
    assert "job_runs" in tables(empty)


def test_a_failing_migration_changes_nothing(empty: Engine) -> None:
    with empty.begin() as connection:
        connection.execute(text("CREATE SCHEMA calendar"))
        connection.execute(
            text(
                "CREATE FUNCTION calendar.forget_expiry_failure() RETURNS int"
                " LANGUAGE sql AS 'SELECT 1'"
            )
        )
    with pytest.raises(Exception, match="already exists"):
        migrations.apply(empty)
    assert tables(empty) == set()


def test_tables_that_no_migration_made_are_not_built_upon(empty: Engine) -> None:
    with empty.begin() as connection:
        connection.execute(text("CREATE SCHEMA calendar"))
        connection.execute(text("CREATE TABLE calendar.job_runs (id int)"))
    with pytest.raises(schema.SchemaError, match=r"\(job_runs\).* --adopt"):
        migrations.apply(empty)
    assert tables(empty) == {"job_runs"}


def test_an_unmigrated_schema_is_refused_in_one_sentence(empty: Engine) -> None:
    with empty.connect() as connection, pytest.raises(schema.SchemaError, match="app migrate"):
        schema.check(connection)


@pytest.mark.parametrize(
    ("level", "oldest_program", "refused"),
    [(0, 0, "app migrate"), (1, 1, None), (9, 1, None), (9, 2, "too new")],
)
def test_a_program_works_with_every_schema_not_marked_as_too_new(
    world: World, level: int, oldest_program: int, refused: str | None
) -> None:
    world.appointment()
    world.execute(
        "UPDATE calendar.schema_level SET level = :level, oldest_program = :oldest",
        level=level,
        oldest=oldest_program,
    )
    report = world.run()
    if refused:
        assert report.expired == 0
        assert refused in str(report.detail)
    else:
        assert report.expired == 1
