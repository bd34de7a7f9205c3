"""Appointments, slots, events, reminders, and what the database itself refuses (D1-D5)."""

from alembic import context, op

revision = "0001"
down_revision = None

# Storage (docs/decisions/0009): room in each page of what changes in place; vacuum before the dead
# entries in front of the oldest one cost a claim anything.
TABLES = """
CREATE TABLE calendar.availability_slots (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    status text NOT NULL DEFAULT 'Available'
        CONSTRAINT slot_status_known CHECK (status IN ('Available', 'Booked', 'Expired')),
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    min_lead_time_minutes integer NOT NULL DEFAULT 0
        CONSTRAINT slot_lead_time_not_negative CHECK (min_lead_time_minutes >= 0),
    auto_confirm boolean NOT NULL DEFAULT false,
    updated_at timestamptz NOT NULL DEFAULT now(),
    version integer NOT NULL DEFAULT 1,
    CONSTRAINT slot_ends_after_start CHECK (end_at >= start_at)
) WITH (fillfactor = 85);

CREATE TABLE calendar.calendar_events (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL,
    origin text NOT NULL DEFAULT 'Appointment'
        CONSTRAINT event_origin_known CHECK (origin IN ('Appointment', 'Manual')),
    status text NOT NULL DEFAULT 'Scheduled'
        CONSTRAINT event_status_known CHECK (status IN ('Scheduled', 'Cancelled', 'Completed')),
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    cancel_reason text,
    updated_at timestamptz NOT NULL DEFAULT now(),
    version integer NOT NULL DEFAULT 1,
    CONSTRAINT event_ends_after_start CHECK (end_at >= start_at)
) WITH (fillfactor = 70);  -- a cancelled event is longer by its reason

CREATE TABLE calendar.event_reminders (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    calendar_event_id uuid NOT NULL REFERENCES calendar.calendar_events (id),
    status text NOT NULL DEFAULT 'Pending'
        CONSTRAINT reminder_status_known CHECK (status IN ('Pending', 'Sent', 'Skipped')),
    remind_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 85);
CREATE INDEX ix_event_reminders_calendar_event_id
    ON calendar.event_reminders (calendar_event_id);

CREATE TABLE calendar.appointments (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL,
    slot_id uuid NOT NULL REFERENCES calendar.availability_slots (id),
    calendar_event_id uuid NOT NULL REFERENCES calendar.calendar_events (id),
    investor_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    status text NOT NULL DEFAULT 'Pending'
        CONSTRAINT appointment_status_known
        CHECK (status IN ('Pending', 'Confirmed', 'Declined', 'Cancelled', 'Expired')),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    pending_expires_at timestamptz,
    cancelled_by uuid,
    version integer NOT NULL DEFAULT 1
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
-- D3: holds the undecided only, so its cost does not grow with the table.
CREATE INDEX ix_appointments_pending_expires_at
    ON calendar.appointments (pending_expires_at, id)
    WHERE status = 'Pending' AND pending_expires_at IS NOT NULL;
-- D4: one active appointment on a slot; also how the cycle finds a rival on it.
CREATE UNIQUE INDEX ux_appointments_one_active_per_slot
    ON calendar.appointments (slot_id) WHERE status IN ('Pending', 'Confirmed');
CREATE INDEX ix_appointments_calendar_event_id ON calendar.appointments (calendar_event_id);
"""

# Guards run with their owner's rights: who writes reminders or appointments needs none on the rest.
# The insert locks the event before it looks: FOR SHARE waits for a cancellation in flight and then
# sees its end. The other direction is checked at commit, when a canceller has said all it has to.
GUARDS = """
CREATE FUNCTION calendar.refuse_reminder_of_cancelled_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    event_status text;
BEGIN
    SELECT status INTO event_status FROM calendar.calendar_events
        WHERE id = NEW.calendar_event_id FOR SHARE;
    IF event_status = 'Cancelled' THEN
        RAISE EXCEPTION 'a pending reminder on a cancelled event'
            USING ERRCODE = 'check_violation',
                  CONSTRAINT = 'no_pending_reminder_on_cancelled_event',
                  SCHEMA = 'calendar', TABLE = 'event_reminders';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION calendar.refuse_cancelled_event_with_reminder() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM calendar.event_reminders
        WHERE calendar_event_id = NEW.id AND status = 'Pending';
    IF FOUND THEN
        RAISE EXCEPTION 'a pending reminder on a cancelled event'
            USING ERRCODE = 'check_violation',
                  CONSTRAINT = 'no_pending_reminder_on_cancelled_event',
                  SCHEMA = 'calendar', TABLE = 'calendar_events';
    END IF;
    RETURN NULL;
END $$;
"""
TRIGGERS = """
CREATE TRIGGER no_pending_reminder_on_cancelled_event
    BEFORE INSERT OR UPDATE OF status, calendar_event_id ON calendar.event_reminders
    FOR EACH ROW WHEN (NEW.status = 'Pending')
    EXECUTE FUNCTION calendar.refuse_reminder_of_cancelled_event();

CREATE CONSTRAINT TRIGGER no_pending_reminder_on_cancelled_event
    AFTER INSERT OR UPDATE OF status ON calendar.calendar_events
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'Cancelled')
    EXECUTE FUNCTION calendar.refuse_cancelled_event_with_reminder();
"""


def upgrade() -> None:
    """Create the calendar's tables and guards; an adopter has tables, and triggers, of his own."""
    adopted = context.config.attributes["adopted_key"]
    if not adopted:
        op.execute(TABLES)
    op.execute(GUARDS)
    if not adopted:
        op.execute(TRIGGERS)


def downgrade() -> None:
    """Drop them with their data."""
    op.execute(
        """
        DROP TABLE calendar.appointments, calendar.event_reminders,
                   calendar.calendar_events, calendar.availability_slots;
        DROP FUNCTION calendar.refuse_reminder_of_cancelled_event,
                      calendar.refuse_cancelled_event_with_reminder;
        """
    )
