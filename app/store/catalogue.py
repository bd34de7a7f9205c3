"""What the migrations leave in the database, and whether all of it is there and at work.

A test holds the list against a migrated database. Only catalogs are read: no table is locked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, text

ADOPTABLE = ("appointments", "availability_slots", "calendar_events", "event_reminders")
"""What an adopter may bring along, as tables or views; the others are always ours."""
TABLES = (
    *ADOPTABLE,
    "outbox_messages",
    "expiry_failures",
    "job_runs",
    "brake",
    "schema_level",
)
KEYS = """
ALTER TABLE appointments ADD CONSTRAINT appointments_pkey PRIMARY KEY (id);
ALTER TABLE availability_slots ADD CONSTRAINT availability_slots_pkey PRIMARY KEY (id);
ALTER TABLE calendar_events ADD CONSTRAINT calendar_events_pkey PRIMARY KEY (id);
ALTER TABLE event_reminders ADD CONSTRAINT event_reminders_pkey PRIMARY KEY (id);
ALTER TABLE outbox_messages ADD CONSTRAINT outbox_messages_pkey PRIMARY KEY (id);
ALTER TABLE expiry_failures ADD CONSTRAINT expiry_failures_pkey PRIMARY KEY (appointment_id);
ALTER TABLE job_runs ADD CONSTRAINT job_runs_pkey PRIMARY KEY (run_id);
ALTER TABLE brake ADD CONSTRAINT brake_pkey PRIMARY KEY (only_row);
ALTER TABLE schema_level ADD CONSTRAINT schema_level_pkey PRIMARY KEY (only_row);
"""
REFERENCES = """
ALTER TABLE appointments ADD CONSTRAINT appointments_slot_id_fkey
    FOREIGN KEY (slot_id) REFERENCES calendar.availability_slots (id);
ALTER TABLE appointments ADD CONSTRAINT appointments_calendar_event_id_fkey
    FOREIGN KEY (calendar_event_id) REFERENCES calendar.calendar_events (id);
ALTER TABLE event_reminders ADD CONSTRAINT event_reminders_calendar_event_id_fkey
    FOREIGN KEY (calendar_event_id) REFERENCES calendar.calendar_events (id);
"""
CONSTRAINTS = """
ALTER TABLE appointments ADD CONSTRAINT appointment_status_known
    CHECK (status IN ('Pending', 'Confirmed', 'Declined', 'Cancelled', 'Expired'));
ALTER TABLE availability_slots ADD CONSTRAINT slot_status_known
    CHECK (status IN ('Available', 'Booked', 'Expired'));
ALTER TABLE availability_slots ADD CONSTRAINT slot_lead_time_not_negative
    CHECK (min_lead_time_minutes >= 0);
ALTER TABLE availability_slots ADD CONSTRAINT slot_ends_after_start CHECK (end_at >= start_at);
ALTER TABLE calendar_events ADD CONSTRAINT event_status_known
    CHECK (status IN ('Scheduled', 'Cancelled', 'Completed'));
ALTER TABLE calendar_events ADD CONSTRAINT event_origin_known
    CHECK (origin IN ('Appointment', 'Manual'));
ALTER TABLE calendar_events ADD CONSTRAINT event_ends_after_start CHECK (end_at >= start_at);
ALTER TABLE event_reminders ADD CONSTRAINT reminder_status_known
    CHECK (status IN ('Pending', 'Sent', 'Skipped'));
ALTER TABLE outbox_messages ADD CONSTRAINT one_message_per_change UNIQUE (message_id);
ALTER TABLE job_runs ADD CONSTRAINT job_run_outcome_known
    CHECK (outcome IN ('completed', 'cut_short', 'stopped', 'failed', 'skipped'));
ALTER TABLE brake ADD CONSTRAINT brake_only_row_check CHECK (only_row);
ALTER TABLE schema_level ADD CONSTRAINT schema_level_only_row_check CHECK (only_row);
"""
INDEXES = """
CREATE INDEX ix_appointments_pending_expires_at ON appointments (pending_expires_at, id)
    WHERE status = 'Pending' AND pending_expires_at IS NOT NULL;
CREATE UNIQUE INDEX ux_appointments_one_active_per_slot ON appointments (slot_id)
    WHERE status IN ('Pending', 'Confirmed');
CREATE INDEX ix_appointments_calendar_event_id ON appointments (calendar_event_id);
CREATE INDEX ix_event_reminders_calendar_event_id ON event_reminders (calendar_event_id);
CREATE INDEX ix_outbox_messages_waiting ON outbox_messages (id)
    WHERE published_at IS NULL AND discarded_at IS NULL AND set_aside_at IS NULL;
CREATE INDEX ix_outbox_messages_unsent_by_key ON outbox_messages (topic, key, id)
    WHERE published_at IS NULL AND discarded_at IS NULL;
CREATE INDEX ix_outbox_messages_published_at ON outbox_messages (published_at)
    WHERE published_at IS NOT NULL;
CREATE INDEX ix_outbox_messages_discarded_at ON outbox_messages (discarded_at)
    WHERE discarded_at IS NOT NULL;
CREATE INDEX ix_outbox_messages_refused ON outbox_messages (id)
    WHERE published_at IS NULL AND discarded_at IS NULL AND last_error IS NOT NULL;
CREATE INDEX ix_job_runs_job_started_at ON job_runs (job, started_at DESC);
CREATE INDEX ix_job_runs_started_at ON job_runs (started_at);
CREATE INDEX ix_job_runs_succeeded ON job_runs (job, started_at DESC)
    WHERE outcome IN ('completed', 'cut_short');
"""
TRIGGERS = """
CREATE TRIGGER no_pending_reminder_on_cancelled_event
    BEFORE INSERT OR UPDATE OF status, calendar_event_id ON event_reminders
    FOR EACH ROW WHEN (NEW.status = 'Pending')
    EXECUTE FUNCTION calendar.refuse_reminder_of_cancelled_event();
CREATE CONSTRAINT TRIGGER no_pending_reminder_on_cancelled_event
    AFTER INSERT OR UPDATE OF status ON calendar_events DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'Cancelled')
    EXECUTE FUNCTION calendar.refuse_cancelled_event_with_reminder();
CREATE TRIGGER forget_expiry_failure_on_update AFTER UPDATE OF status ON appointments
    FOR EACH ROW WHEN (OLD.status = 'Pending' AND NEW.status <> 'Pending')
    EXECUTE FUNCTION calendar.forget_expiry_failure();
CREATE TRIGGER forget_expiry_failure_on_delete AFTER DELETE ON appointments
    FOR EACH ROW WHEN (OLD.status = 'Pending')
    EXECUTE FUNCTION calendar.forget_expiry_failure();
"""


class Kind(StrEnum):
    """Of an object."""

    TABLE = "table"
    KEY = "key"
    REFERENCE = "reference"
    CONSTRAINT = "constraint"
    INDEX = "index"
    TRIGGER = "trigger"


class State(StrEnum):
    """In what way an object is not at work."""

    MISSING = "missing"
    INVALID = "invalid"
    OFF = "switched off"


@dataclass(frozen=True, slots=True)
class Object:
    """One of them; `makes` is the statement that makes it anew."""

    kind: Kind
    table: str
    name: str
    makes: str = ""


def objects(kind: Kind, statements: str) -> Iterator[Object]:
    """What these statements make, each with its table in the schema."""
    for statement in statements.split(";")[:-1]:
        name = re.search(r"(?:CONSTRAINT|INDEX|TRIGGER) ([a-z_]+)", statement)
        table = re.search(r"(?:ALTER TABLE|\bON) ([a-z_]+)", statement)
        if name is None or table is None:
            raise ValueError(statement)
        at = table.start(1)
        makes = " ".join(f"{statement[:at]}calendar.{statement[at:]}".split())
        yield Object(kind, table[1], name[1], makes)


OBJECTS = (
    *(Object(Kind.TABLE, table, table) for table in TABLES),
    *objects(Kind.KEY, KEYS),
    *objects(Kind.REFERENCE, REFERENCES),
    *objects(Kind.CONSTRAINT, CONSTRAINTS),
    *objects(Kind.INDEX, INDEXES),
    *objects(Kind.TRIGGER, TRIGGERS),
)


def not_at_work(connection: Connection) -> list[tuple[Object, State]]:
    """Every object that is missing, invalid or switched off; of a missing table only itself."""
    values = {
        "kinds": [one.kind for one in OBJECTS],
        "tables": [one.table for one in OBJECTS],
        "names": [one.name for one in OBJECTS],
    }
    states = connection.execute(_STATES, values).scalars()
    found = [(one, State(state)) for one, state in zip(OBJECTS, states, strict=True) if state]
    gone = {one.table for one, _state in found if one.kind is Kind.TABLE}
    return [(one, s) for one, s in found if one.kind is Kind.TABLE or one.table not in gone]


_STATES = text(
    """
    SELECT CASE wanted.kind
        WHEN 'table' THEN CASE WHEN relation.oid IS NULL THEN 'missing' END
        WHEN 'index' THEN (
            SELECT CASE WHEN count(*) = 0 THEN 'missing'
                WHEN NOT bool_and(indisvalid AND indisready) THEN 'invalid' END
            FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
            WHERE indrelid = relation.oid AND relname = wanted.name)
        WHEN 'trigger' THEN (
            SELECT CASE WHEN count(*) = 0 THEN 'missing'
                WHEN NOT bool_and(tgenabled IN ('O', 'A')) THEN 'switched off' END
            FROM pg_trigger WHERE tgrelid = relation.oid AND tgname = wanted.name)
        ELSE (
            SELECT CASE WHEN count(*) = 0 THEN 'missing'
                WHEN NOT bool_and(convalidated) THEN 'invalid'
                WHEN bool_or(EXISTS (
                    SELECT FROM pg_trigger WHERE tgconstraint = pg_constraint.oid
                        AND tgenabled NOT IN ('O', 'A'))) THEN 'switched off' END
            FROM pg_constraint WHERE conrelid = relation.oid AND conname = wanted.name)
        END
    FROM unnest(CAST(:kinds AS text[]), CAST(:tables AS text[]), CAST(:names AS text[]))
        WITH ORDINALITY AS wanted (kind, table_name, name, place)
    LEFT JOIN pg_class relation ON relation.relname = wanted.table_name
        AND relation.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'calendar')
    ORDER BY place
    """
)
