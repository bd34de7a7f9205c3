-- A team whose names are none of ours, in a schema and a table that are called like ours.
CREATE SCHEMA calendar;
CREATE TYPE calendar."State" AS ENUM
    ('Pending', 'Confirmed', 'Rescheduled', 'NoShow', 'Declined', 'Cancelled', 'Expired');
CREATE TYPE calendar."SlotState" AS ENUM ('Available', 'Booked', 'Blocked', 'Expired');
CREATE TYPE calendar.kind AS ENUM ('Appointment', 'Manual', 'Import');
CREATE TYPE calendar.entry_state AS ENUM ('Scheduled', 'Cancelled', 'Completed', 'Tentative');
CREATE TYPE calendar.alarm_state AS ENUM ('Pending', 'Sent', 'Skipped', 'Lost');
CREATE TABLE calendar."Slots" (
    "SlotId" uuid PRIMARY KEY,
    "TenantId" uuid NOT NULL,
    "AgentId" uuid NOT NULL,
    "State" calendar."SlotState" NOT NULL,
    "StartAt" timestamptz NOT NULL,
    "EndAt" timestamptz NOT NULL,
    "MinLeadTimeMinutes" smallint NOT NULL,
    "AutoConfirm" boolean NOT NULL,
    "UpdatedAt" timestamptz NOT NULL,
    "Version" integer NOT NULL,
    office text NOT NULL
);
CREATE TABLE calendar.entries (
    entry_id uuid PRIMARY KEY,
    tenant uuid NOT NULL,
    kind calendar.kind NOT NULL,
    state calendar.entry_state NOT NULL,
    starts timestamptz NOT NULL,
    ends timestamptz NOT NULL,
    why text,
    changed timestamptz NOT NULL,
    revision bigint NOT NULL,
    colour text NOT NULL
);
CREATE TABLE calendar.alarms (
    alarm_id uuid PRIMARY KEY,
    "entry:%s" uuid,
    state calendar.alarm_state NOT NULL,
    rings timestamptz NOT NULL,
    changed timestamptz NOT NULL,
    channel text NOT NULL
);
CREATE TABLE calendar.appointments (
    "AppointmentId" uuid PRIMARY KEY,
    "TenantId" uuid NOT NULL,
    "Slot" uuid,
    "Entry" uuid,
    "InvestorId" uuid NOT NULL,
    "AgentId" uuid NOT NULL,
    "State" calendar."State" NOT NULL,
    "CreatedAt" timestamptz NOT NULL,
    "UpdatedAt" timestamptz NOT NULL,
    "PendingExpiresAt" timestamptz,
    "CancelledBy" uuid,
    "Version" integer NOT NULL,
    note text NOT NULL
);

CREATE SCHEMA timeout;
CREATE VIEW timeout.appointments AS SELECT
    "AppointmentId" AS id, "TenantId" AS tenant_id, "Slot" AS slot_id,
    "Entry" AS calendar_event_id, "InvestorId" AS investor_id, "AgentId" AS agent_id,
    "State" AS status, "CreatedAt" AS created_at, "UpdatedAt" AS updated_at,
    "PendingExpiresAt" AS pending_expires_at, "CancelledBy" AS cancelled_by,
    "Version" AS version, xmax
FROM calendar.appointments;
CREATE VIEW timeout.availability_slots AS SELECT
    "SlotId" AS id, "TenantId" AS tenant_id, "AgentId" AS agent_id, "State" AS status,
    "StartAt" AS start_at, "EndAt" AS end_at, "MinLeadTimeMinutes" AS min_lead_time_minutes,
    "AutoConfirm" AS auto_confirm, "UpdatedAt" AS updated_at, "Version" AS version, xmax
FROM calendar."Slots";
CREATE VIEW timeout.calendar_events AS SELECT
    entry_id AS id, tenant AS tenant_id, kind AS origin, state AS status, starts AS start_at,
    ends AS end_at, why AS cancel_reason, changed AS updated_at, revision AS version, xmax
FROM calendar.entries;
CREATE VIEW timeout.event_reminders AS SELECT
    alarm_id AS id, "entry:%s" AS calendar_event_id, state AS status, rings AS remind_at,
    changed AS updated_at, xmax
FROM calendar.alarms;
