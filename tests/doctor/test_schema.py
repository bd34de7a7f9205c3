"""All that the migrations make is looked at (D3, D4), and what is missing can be made anew."""

import subprocess
import sys

import pytest

from app.store import catalogue
from app.store.catalogue import Kind, Object
from tests.doctor.patient import Patient, prescribed

MADE = [one for one in catalogue.OBJECTS if one.kind is not Kind.TABLE]


def test_the_list_is_what_the_migrations_make(patient: Patient) -> None:
    constraints = patient.sql(
        """SELECT relname, conname FROM pg_constraint JOIN pg_class r ON r.oid = conrelid
        WHERE connamespace = 'calendar'::regnamespace AND contype IN ('p', 'f', 'c', 'u')
          AND relname <> 'schema_revision'"""
    )
    triggers = patient.sql(
        """SELECT relname, tgname FROM pg_trigger JOIN pg_class r ON r.oid = tgrelid
        WHERE NOT tgisinternal"""
    )
    indexes = patient.sql(
        """SELECT tablename, indexname FROM pg_indexes WHERE schemaname = 'calendar'
          AND NOT EXISTS (SELECT FROM pg_constraint WHERE conname = indexname)"""
    )
    tables = patient.sql(
        """SELECT tablename, tablename FROM pg_tables
        WHERE schemaname = 'calendar' AND tablename <> 'schema_revision'"""
    )
    listed = [(one.table, one.name) for one in catalogue.OBJECTS]
    assert sorted(listed) == sorted([*constraints, *triggers, *indexes, *tables])


@pytest.mark.parametrize("made", MADE, ids=lambda one: f"{one.table}.{one.name}")
def test_what_is_missing_is_named_and_its_remedy_makes_it_anew(
    patient: Patient, made: Object
) -> None:
    before = patient.definitions()
    if made.kind is Kind.INDEX:
        patient.sql(f"DROP INDEX calendar.{made.name}")
    elif made.kind is Kind.TRIGGER:
        patient.sql(f"DROP TRIGGER {made.name} ON calendar.{made.table}")
    else:  # a key takes its references with it
        patient.sql(f"ALTER TABLE calendar.{made.table} DROP CONSTRAINT {made.name} CASCADE")
    found = patient.found()
    assert f"{made.kind} {made.name} on calendar.{made.table} is missing" in found[0].found
    assert found[0].serious is (made.kind is not Kind.REFERENCE)
    assert made.kind is Kind.KEY or len(found) == 1
    patient.mend(found)
    assert patient.found() == []
    assert patient.definitions() == before


@pytest.mark.parametrize(
    ("planted", "name", "state"),
    [
        (
            """UPDATE pg_index SET indisvalid = false
            WHERE indexrelid = 'calendar.ix_appointments_pending_expires_at'::regclass""",
            "index ix_appointments_pending_expires_at on calendar.appointments",
            "invalid",
        ),
        (
            """ALTER TABLE calendar.event_reminders
            DISABLE TRIGGER no_pending_reminder_on_cancelled_event""",
            "trigger no_pending_reminder_on_cancelled_event on calendar.event_reminders",
            "switched off",
        ),
        (
            """ALTER TABLE calendar.calendar_events
            ENABLE REPLICA TRIGGER no_pending_reminder_on_cancelled_event""",
            "trigger no_pending_reminder_on_cancelled_event on calendar.calendar_events",
            "switched off",
        ),
        (
            """ALTER TABLE calendar.appointments DROP CONSTRAINT appointment_status_known;
            ALTER TABLE calendar.appointments ADD CONSTRAINT appointment_status_known CHECK (status
            IN ('Pending', 'Confirmed', 'Declined', 'Cancelled', 'Expired')) NOT VALID""",
            "constraint appointment_status_known on calendar.appointments",
            "invalid",
        ),
        (
            "ALTER TABLE calendar.event_reminders DISABLE TRIGGER ALL",
            "reference event_reminders_calendar_event_id_fkey on calendar.event_reminders",
            "switched off",
        ),
        ("ALTER TABLE calendar.brake SET UNLOGGED", "table calendar.brake", "unlogged"),
    ],
)
def test_what_is_there_and_not_at_work_is_named_and_mended(
    patient: Patient, planted: str, name: str, state: str
) -> None:
    before = patient.definitions()
    patient.sql(planted)
    complaints = patient.found()
    assert complaints[0].found.startswith(f"The {name} is {state}: ")
    patient.mend(complaints)
    assert patient.found() == []
    assert patient.definitions() == before


def test_a_table_that_is_missing_is_told_alone(patient: Patient) -> None:
    patient.sql("DROP TABLE calendar.brake")
    [complaint] = patient.found()
    assert complaint.found.startswith("The table brake is missing")
    assert complaint.serious


def test_an_unmigrated_schema_is_migrated_by_the_remedy(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient.sql("DROP SCHEMA calendar CASCADE")
    [complaint] = patient.found()
    assert complaint.found == "The schema is missing or too old."
    [command] = prescribed(complaint)
    owner = patient.server.url(patient.name)
    done = subprocess.run(
        [sys.executable, *command.split()[1:]], env={"DATABASE_URL": owner}, check=False
    )
    assert done.returncode == 0
    patient.make_role()
    assert patient.found() == []


def test_a_schema_that_is_too_new_wants_a_newer_program(patient: Patient) -> None:
    patient.sql("UPDATE calendar.schema_level SET oldest_program = 99")
    [complaint] = patient.found()
    assert "too new" in complaint.found
    assert complaint.remedy == "Deploy the newer version."
