-- The least that workers, publisher and retention need: no DDL, only the columns they must write.
-- Run once by the schema's owner after `python -m app migrate`, and again after an upgrade:
--
--     psql "$OWNER_URL" -v role=calendar_worker -f worker-role.sql     # -v schema=… if it is another
--     psql "$OWNER_URL" -c "ALTER ROLE calendar_worker LOGIN PASSWORD '…'"
--
-- The session's limits stand on the role too, for poolers that pass no options on.

\if :{?schema}
\else
\set schema calendar
\endif

SELECT format('CREATE ROLE %I NOLOGIN', :'role')
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \gexec

ALTER ROLE :"role" SET timezone = 'UTC';
ALTER ROLE :"role" SET lock_timeout = '2s';
ALTER ROLE :"role" SET statement_timeout = '10s';
ALTER ROLE :"role" SET idle_in_transaction_session_timeout = '20s';
ALTER ROLE :"role" SET client_connection_check_interval = '500ms';
ALTER ROLE :"role" SET jit = off;
ALTER ROLE :"role" SET plan_cache_mode = force_generic_plan;
ALTER ROLE :"role" SET enable_seqscan = off;
ALTER ROLE :"role" SET enable_bitmapscan = off;

GRANT USAGE ON SCHEMA :"schema" TO :"role";
GRANT SELECT ON :"schema".appointments, :"schema".availability_slots, :"schema".calendar_events,
    :"schema".event_reminders, :"schema".outbox_messages, :"schema".expiry_failures,
    :"schema".job_runs, :"schema".brake, :"schema".schema_level TO :"role";

-- The cascade (C3).
GRANT UPDATE (status, updated_at, cancelled_by, version) ON :"schema".appointments TO :"role";
GRANT UPDATE (status, updated_at, version) ON :"schema".availability_slots TO :"role";
GRANT UPDATE (status, cancel_reason, updated_at, version) ON :"schema".calendar_events TO :"role";
GRANT UPDATE (status, updated_at) ON :"schema".event_reminders TO :"role";

-- The outbox: written by the cascade, marked by the publisher, emptied by retention (O1-O5).
GRANT INSERT (message_id, topic, key, payload, headers) ON :"schema".outbox_messages TO :"role";
GRANT UPDATE (published_at, attempts, last_attempt_at, last_error, set_aside_at, discarded_at)
    ON :"schema".outbox_messages TO :"role";
GRANT DELETE ON :"schema".outbox_messages TO :"role";

-- What the jobs keep (C4, C6), and the brake.
GRANT INSERT, UPDATE, DELETE ON :"schema".expiry_failures, :"schema".job_runs, :"schema".brake
    TO :"role";
