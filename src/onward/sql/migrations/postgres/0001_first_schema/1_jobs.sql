-- Jobs, live and ended; idempotency keys; reruns.
--
-- In all files here: columns that an index compares have COLLATE "C", because no statement needs a language's order and
-- comparing bytes is cheaper. Autovacuum is set by how a table is written. Small tables whose rows are updated all the
-- time are vacuumed after about 200 dead rows. Large tables that lose their oldest rows are vacuumed at a twentieth:
-- the default, a fifth, is too late. Append-only tables are vacuumed as they grow, for index-only scans and freezing.

CREATE SCHEMA IF NOT EXISTS {channel};

-- Jobs that can still change. Small and hot: a job that has ended is moved to `ended`.
-- `flow` has bits for the follow-up work of the job's end; `pending` counts the jobs for which it waits.
-- A claim adds an entry to the primary key: half-empty pages have room for it, so that none is split.
CREATE TABLE {live} (
    id uuid PRIMARY KEY WITH (fillfactor = 45),
    org_id text,
    project_id text,
    job_type text NOT NULL,
    queue text COLLATE "C" NOT NULL,
    category text NOT NULL,
    state text NOT NULL CHECK (state IN ('scheduled', 'queued', 'running', 'blocked')),
    priority smallint NOT NULL CHECK (priority BETWEEN -1000 AND 1000),
    run_at timestamptz NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL,
    lease bigint NOT NULL DEFAULT 0,
    worker_id text COLLATE "C",
    key text,
    subject text,
    payload jsonb NOT NULL,
    progress jsonb,
    cost_micros bigint NOT NULL DEFAULT 0,
    actor_type text,
    actor_id text,
    request_id text,
    correlation_id text,
    traceparent text,
    parent_id uuid,
    batch_id uuid,
    tags jsonb,
    cancel_requested_at timestamptz,
    rerun_requested boolean NOT NULL DEFAULT false,
    deadline timestamptz,
    timeout_micros bigint,
    waits integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    error jsonb,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    flow smallint NOT NULL DEFAULT 0,
    pending integer NOT NULL DEFAULT 0,
    limit_key text COLLATE "C",
    fair boolean NOT NULL DEFAULT false
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000
);
-- Partial, so that a claim never reads jobs that are not ready.
CREATE INDEX live_ready ON {live} (queue, priority, run_at, id) WHERE state = 'queued';
CREATE INDEX live_due ON {live} (run_at) WHERE state = 'scheduled';
CREATE INDEX live_held ON {live} (worker_id) WHERE state = 'running';
-- The history of a subject; jobs without one cost nothing.
CREATE INDEX live_subject ON {live} (subject, id) WHERE subject IS NOT NULL;

-- Jobs that have ended. Ids grow with time, so ranges of ids are months and retention can drop whole partitions.
-- `flow` is negative once the follow-up work of the end is done.
CREATE TABLE {ended} (
    id uuid PRIMARY KEY,
    org_id text,
    project_id text,
    job_type text NOT NULL,
    queue text COLLATE "C" NOT NULL,
    category text NOT NULL,
    state text NOT NULL CHECK (state IN ('succeeded', 'dead', 'cancelled')),
    priority smallint NOT NULL,
    run_at timestamptz NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL,
    lease bigint NOT NULL DEFAULT 0,
    worker_id text COLLATE "C",
    key text,
    subject text,
    payload jsonb NOT NULL,
    progress jsonb,
    cost_micros bigint NOT NULL DEFAULT 0,
    actor_type text,
    actor_id text,
    request_id text,
    correlation_id text,
    traceparent text,
    parent_id uuid,
    batch_id uuid,
    tags jsonb,
    cancel_requested_at timestamptz,
    rerun_requested boolean NOT NULL DEFAULT false,
    deadline timestamptz,
    timeout_micros bigint,
    waits integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    error jsonb,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    result jsonb,
    outcome text NOT NULL,
    ended_at timestamptz NOT NULL,
    flow smallint NOT NULL DEFAULT 0,
    limit_key text COLLATE "C",
    fair boolean NOT NULL DEFAULT false
) PARTITION BY RANGE (id);
-- For ids of months that have no partition.
CREATE TABLE {prefix}ended_rest PARTITION OF {ended} DEFAULT
    WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- Most jobs succeed: an index of only the others costs those nothing. With the lease, by which a death is resolved.
CREATE INDEX ended_dead ON {ended} (id, lease) WHERE state = 'dead';
CREATE INDEX ended_cancelled ON {ended} (id) WHERE state = 'cancelled';
CREATE INDEX ended_subject ON {ended} (subject, id) WHERE subject IS NOT NULL;

-- Which job holds an idempotency key; '' stands for no org and no project, because null is never equal to null.
-- `status`, `result_ref` and `error_ref` outlive the job, which may be removed before its key.
CREATE TABLE {keys} (
    org_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    job_id uuid NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    status text,
    result_ref text,
    error_ref text,
    PRIMARY KEY (org_id, project_id, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- Decides which job holds a key that an enqueue found taken: the job that has it, or the new one if the key is free
-- again (its job has ended and its lifetime is over). A function, because each of its statements sees what was
-- committed a moment ago, and because its plans are made for tables of any size. `note` also records when the key was
-- last asked for; not within a caller's transaction, which would hold the lock.
CREATE FUNCTION {prefix}hold_key(
    IN asked_org text, IN asked_project text, IN asked_key text, IN new_job uuid, IN at timestamptz,
    IN expiry timestamptz, IN note boolean DEFAULT false, OUT job_id uuid, OUT state text
)
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    lapsed timestamptz;
    freed uuid;
BEGIN
    LOOP
        SELECT k.job_id, k.expires_at INTO job_id, lapsed FROM {keys} AS k
        WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key;
        IF FOUND THEN
            SELECT live.state INTO state FROM {live} AS live WHERE live.id = hold_key.job_id;
            IF FOUND OR lapsed > at THEN
                -- A locked key is being changed anyway, and the caller must not wait for a mere note.
                IF note THEN
                    PERFORM FROM {keys} AS k
                    WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key
                    FOR UPDATE SKIP LOCKED;
                    IF FOUND THEN
                        UPDATE {keys} AS k SET last_seen_at = greatest(k.last_seen_at, at)
                        WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key;
                    END IF;
                END IF;
                IF state IS NULL THEN
                    SELECT ended.state INTO state FROM {ended} AS ended WHERE ended.id = hold_key.job_id;
                END IF;
                RETURN;
            END IF;
            -- Locked, and then looked at once more: a job that has ended may be reset, which locks its key first.
            PERFORM FROM {keys} AS k
            WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key
                AND k.job_id = hold_key.job_id AND k.expires_at = lapsed
            FOR UPDATE;
            IF NOT FOUND THEN
                CONTINUE;
            END IF;
            PERFORM FROM {live} AS live WHERE live.id = hold_key.job_id;
            IF FOUND THEN
                CONTINUE;
            END IF;
            UPDATE {keys} AS k SET job_id = new_job, first_seen_at = at, last_seen_at = at, expires_at = expiry,
                status = NULL, result_ref = NULL, error_ref = NULL
            WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key
            RETURNING k.job_id INTO freed;
        ELSE
            INSERT INTO {keys} AS k (org_id, project_id, key, job_id, first_seen_at, last_seen_at, expires_at)
            VALUES (asked_org, asked_project, asked_key, new_job, at, at, expiry)
            ON CONFLICT DO NOTHING
            RETURNING k.job_id INTO freed;
        END IF;
        IF freed IS NOT NULL THEN
            job_id := freed;
            RETURN;
        END IF;
    END LOOP;
END
$$;

-- The keys with their status, for people and hand-written SQL; '' stands for no org and no project.
CREATE VIEW {ledger} AS
SELECT
    k.org_id, k.project_id, k.key, k.job_id,
    CASE
        WHEN live.state = 'running' THEN 'running'
        WHEN live.state = 'scheduled' AND live.attempt > 0 THEN 'failed'
        WHEN live.state IS NOT NULL THEN 'pending'
        WHEN ended.state = 'cancelled' THEN 'failed'
        ELSE coalesce(ended.state, k.status)
    END AS status,
    k.first_seen_at, k.last_seen_at, nullif(k.expires_at, 'infinity') AS expires_at,
    CASE WHEN ended.state = 'succeeded' THEN 'job:' || k.job_id ELSE k.result_ref END AS result_ref,
    CASE
        WHEN ended.state IN ('dead', 'cancelled') OR (live.state = 'scheduled' AND live.attempt > 0) THEN 'job:' || k.job_id
        ELSE k.error_ref
    END AS error_ref
FROM {keys} AS k
LEFT JOIN {live} AS live ON live.id = k.job_id
LEFT JOIN {ended} AS ended ON ended.id = k.job_id;

-- The next run of a job that was reset while it ran: a table of its own, because nearly no job has one.
CREATE TABLE {reruns} (
    job_id uuid PRIMARY KEY,
    payload jsonb NOT NULL,
    priority smallint NOT NULL,
    max_attempts integer NOT NULL,
    run_at timestamptz NOT NULL,
    deadline timestamptz,
    timeout_micros bigint,
    actor_type text,
    actor_id text,
    request_id text,
    correlation_id text,
    traceparent text,
    limit_key text COLLATE "C"
);
