"""What keeps a schema from being adopted: one sentence, nothing changed, a remedy that mends it."""

import pytest

from app import schema
from app.adoption import columns, work
from app.adoption.plan import plan
from app.store import catalogue
from tests.adoption.team import Team
from tests.world import World

NAIVE = "a timestamp without time zone: which instant it means, the database does not know (D2)"


def test_what_is_wanted_of_a_column_is_what_our_own_schema_has(world: World) -> None:
    rows = world.all(
        """SELECT table_name AS table, column_name AS name, udt_name AS type
        FROM information_schema.columns WHERE table_schema = 'calendar'
          AND table_name = ANY(:tables)""",
        tables=list(catalogue.ADOPTABLE),
    )
    wanted = {(table, name) for table, kinds in columns.WANTED.items() for name in kinds}
    assert {(row["table"], row["name"]) for row in rows} == wanted
    assert all(row["type"] in columns.WANTED[row["table"]][row["name"]].bases for row in rows)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (
            "ALTER TABLE booking.appointments ALTER pending_expires_at TYPE timestamp",
            f"booking.appointments.pending_expires_at is {NAIVE}.",
        ),
        (
            "ALTER TABLE booking.availability_slots ALTER start_at TYPE timestamp",
            f"booking.availability_slots.start_at is {NAIVE}.",
        ),
        (
            """ALTER TABLE booking.appointments ALTER status TYPE text;
            DROP TYPE booking.appointment_status;
            CREATE TYPE booking.appointment_status AS ENUM ('Pending', 'Confirmed', 'Cancelled');
            ALTER TABLE booking.appointments ALTER status TYPE booking.appointment_status
                USING status::booking.appointment_status""",
            (
                "The enum booking.appointment_status of booking.appointments.status lacks Declined,"
                " Expired."
            ),
        ),
        (
            "ALTER TABLE booking.calendar_events ALTER status TYPE varchar(8)",
            "booking.calendar_events.status holds 8 characters; some of ours are longer.",
        ),
        (
            "ALTER TABLE booking.calendar_events ALTER cancel_reason TYPE varchar(20)",
            "booking.calendar_events.cancel_reason holds 20 characters; some of ours are longer.",
        ),
        (
            "ALTER TABLE booking.appointments DROP COLUMN version",
            "booking.appointments has no column version.",
        ),
        (
            """ALTER TABLE booking.appointments ALTER slot_id TYPE text""",
            "booking.appointments.slot_id is of type text, not uuid.",
        ),
        (
            "ALTER TABLE booking.availability_slots ALTER status TYPE char(20)",
            "booking.availability_slots.status is of type character(20), not text.",
        ),
        (
            "ALTER TABLE booking.appointments DROP CONSTRAINT appointments_pkey",
            (
                "No index of booking.appointments begins with its id: each look at a row reads them"
                " all."
            ),
        ),
    ],
)
def test_an_obstacle_is_one_sentence_changes_nothing_and_its_remedy_mends_it(
    in_place: Team, planted: str, said: str
) -> None:
    in_place.run(planted)
    before = in_place.shape()
    found = work.adopt(in_place.engine(), pytest.fail, guarded=True)
    assert [one.found for one in found.obstacles] == [said]
    assert in_place.shape() == before
    in_place.mend(found)
    in_place.adopt()


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("DROP TABLE booking.event_reminders", "There is no booking.event_reminders."),
        (
            "CREATE TABLE booking.outbox_messages (id int)",
            "booking.outbox_messages is there and not ours: what is in it is not meant for us.",
        ),
        (
            """ALTER TABLE booking.appointments DROP COLUMN version;
            ALTER TABLE booking.appointments
                ADD COLUMN version bigint GENERATED ALWAYS AS (1) STORED""",
            "booking.appointments.version cannot be written: it is computed.",
        ),
        (
            """ALTER TABLE booking.event_reminders RENAME TO reminders;
            CREATE TABLE booking.event_reminders (LIKE booking.reminders)
                PARTITION BY HASH (calendar_event_id);
            CREATE INDEX ON booking.event_reminders (id)""",
            (
                "booking.event_reminders is partitioned and lacks an index, which PostgreSQL does"
                " not build CONCURRENTLY there."
            ),
        ),
        (
            """CREATE INDEX ix_appointments_pending_expires_at ON booking.appointments
            (pending_expires_at) WHERE status = 'Pending' AND note <> ''""",
            (
                "The index ix_appointments_pending_expires_at does not serve the claim (D3): its"
                " keys or its condition are others."
            ),
        ),
    ],
)
def test_what_only_the_team_can_decide_is_said_and_left_alone(
    in_place: Team, planted: str, said: str
) -> None:
    in_place.run(planted)
    before = in_place.shape()
    assert [one.found for one in in_place.look().obstacles] == [said]
    assert in_place.shape() == before


PARTITIONED = """
    ALTER TABLE booking.appointments RENAME TO whole;
    CREATE TABLE booking.appointments (LIKE booking.whole, PRIMARY KEY (id)) PARTITION BY HASH (id);
    CREATE TABLE booking.even PARTITION OF booking.appointments
        FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE booking.odd PARTITION OF booking.appointments
        FOR VALUES WITH (MODULUS 2, REMAINDER 1);
"""


def test_partitioned_appointments_expire_once_the_team_has_made_the_indexes(
    in_place: Team,
) -> None:
    in_place.run(PARTITIONED)
    in_place.mend(in_place.look())
    in_place.adopt()
    made = [in_place.book() for _ in range(8)]
    assert in_place.world().run().expired == len(made)
    assert in_place.run("SELECT count(DISTINCT tableoid) FROM booking.appointments") == [(2,)]


def test_there_must_be_something_to_adopt(in_place: Team, world: World) -> None:
    in_place.run("DROP SCHEMA booking CASCADE")
    with pytest.raises(schema.SchemaError, match="nothing to adopt in the schema booking"):
        in_place.look()
    with world.engine.begin() as connection, pytest.raises(schema.SchemaError, match="was made by"):
        plan(connection)
