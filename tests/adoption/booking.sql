-- A team's own schema: more columns, further statuses, enum and varchar, bigint, rows of before.
CREATE SCHEMA booking;
CREATE TYPE booking.appointment_status AS ENUM
    ('Pending', 'Confirmed', 'Rescheduled', 'NoShow', 'Declined', 'Cancelled', 'Expired');
CREATE TABLE booking.availability_slots (
    id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    status varchar(20) NOT NULL CHECK (status IN ('Available', 'Booked', 'Blocked', 'Expired')),
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    min_lead_time_minutes bigint NOT NULL,
    auto_confirm boolean NOT NULL,
    updated_at timestamptz NOT NULL,
    version bigint NOT NULL,
    office text NOT NULL
);
CREATE TABLE booking.calendar_events (
    id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    origin varchar(40) NOT NULL,
    status varchar(40) NOT NULL,
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    cancel_reason varchar(200),
    updated_at timestamptz NOT NULL,
    version bigint NOT NULL,
    colour text NOT NULL
);
CREATE TABLE booking.event_reminders (
    id uuid PRIMARY KEY,
    calendar_event_id uuid,
    status text NOT NULL,
    remind_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    channel text NOT NULL
);
CREATE TABLE booking.appointments (
    id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    slot_id uuid,
    calendar_event_id uuid,
    investor_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    status booking.appointment_status NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    pending_expires_at timestamptz,
    cancelled_by uuid,
    version bigint NOT NULL,
    note text NOT NULL
);
-- Written by the team's trigger, through its role's search_path.
CREATE TABLE booking.journal (appointment_id uuid, became text);
CREATE FUNCTION booking.keep_journal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO journal VALUES (NEW.id, NEW.status);
    RETURN NEW;
END $$;
CREATE TRIGGER keep_journal AFTER UPDATE ON booking.appointments
    FOR EACH ROW EXECUTE FUNCTION booking.keep_journal();
CREATE TABLE booking.alembic_version (version_num text PRIMARY KEY);
INSERT INTO booking.alembic_version VALUES ('theirs');
