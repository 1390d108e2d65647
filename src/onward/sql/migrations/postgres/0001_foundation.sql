-- Jobs that can still change. Small and hot: whatever has ended is moved to `ended`.
-- What is indexed is compared by its bytes (COLLATE "C"): no language's order is asked for, and it costs a third.
CREATE TABLE {live} (
    id uuid PRIMARY KEY,
    org_id text,
    project_id text,
    job_type text NOT NULL,
    queue text COLLATE "C" NOT NULL,
    category text NOT NULL,
    state text NOT NULL CHECK (state IN ('scheduled', 'queued', 'running', 'blocked')),
    priority smallint NOT NULL CHECK (priority BETWEEN 1 AND 10),
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
    started_at timestamptz
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000
);

-- Partial, so that a claim never walks over jobs that are not ready.
CREATE INDEX live_ready ON {live} (queue, priority, run_at, id) WHERE state = 'queued';
CREATE INDEX live_due ON {live} (run_at) WHERE state = 'scheduled';
CREATE INDEX live_held ON {live} (worker_id) WHERE state = 'running';

-- An id grows with time, so ranges of ids are ranges of time and retention can drop whole partitions.
CREATE TABLE {ended} (
    LIKE {live} INCLUDING DEFAULTS,
    result jsonb,
    outcome text NOT NULL,
    ended_at timestamptz NOT NULL,
    CHECK (state IN ('succeeded', 'dead', 'cancelled')),
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX ended_by_state ON {ended} (state, id);
CREATE TABLE {prefix}ended_rest PARTITION OF {ended} DEFAULT;
DO $$
DECLARE
    month timestamptz := date_trunc('month', clock_timestamp(), 'UTC');
    below text;
    above text;
BEGIN
    FOR i IN 0..12 LOOP
        below := lpad(to_hex(CAST(extract(epoch FROM month) * 1000 AS bigint)), 12, '0') || repeat('0', 20);
        above := lpad(to_hex(CAST(extract(epoch FROM month + interval '1 month') * 1000 AS bigint)), 12, '0')
            || repeat('0', 20);
        EXECUTE format('CREATE TABLE {prefix}ended_%s PARTITION OF {ended} FOR VALUES FROM (%L) TO (%L)',
            to_char(month AT TIME ZONE 'UTC', 'YYYYMM'), CAST(below AS uuid), CAST(above AS uuid));
        month := month + interval '1 month';
    END LOOP;
END
$$;

-- Who holds an idempotency key; '' stands for no org and no project, because null is never equal to null.
CREATE TABLE {keys} (
    org_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    job_id uuid NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, project_id, key)
);

-- Decides who holds a key that an enqueue found taken: the job that has it, or the new one where it is free again
-- (its job has ended and its lifetime is over). A function, because each of its statements sees what was committed
-- a moment ago, and because its plans are made for any size of the tables.
CREATE FUNCTION {prefix}hold_key(
    IN asked_org text, IN asked_project text, IN asked_key text, IN new_job uuid, IN at timestamptz,
    IN expiry timestamptz, OUT job_id uuid, OUT state text
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
                IF state IS NULL THEN
                    SELECT ended.state INTO state FROM {ended} AS ended WHERE ended.id = hold_key.job_id;
                END IF;
                RETURN;
            END IF;
            -- The old job is part of the condition: whoever frees a key first makes the others look again.
            UPDATE {keys} AS k SET job_id = new_job, first_seen_at = at, last_seen_at = at, expires_at = expiry
            WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key
                AND k.job_id = hold_key.job_id
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

-- Earlier runs of a job; its current or last run is in the job's own row.
CREATE TABLE {attempts} (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    attempt integer NOT NULL,
    worker_id text,
    started_at timestamptz,
    ended_at timestamptz NOT NULL,
    outcome text NOT NULL,
    error jsonb,
    PRIMARY KEY (job_id, lease)
);

-- Append-only. One index: with two, an audited job costs a fifth more.
CREATE TABLE {audit} (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL,
    event text NOT NULL,
    job_id uuid,
    job_type text,
    org_id text,
    project_id text,
    actor_type text,
    actor_id text,
    request_id text,
    correlation_id text,
    attempt integer,
    lease bigint,
    worker_id text,
    detail jsonb
);
CREATE INDEX audit_of_job ON {audit} (job_id);

-- A lease is alive while its worker is: one renewal per worker, never one per job.
CREATE TABLE {workers} (
    id text COLLATE "C" PRIMARY KEY,
    info jsonb NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    idle_since timestamptz,
    lost_at timestamptz
) WITH (fillfactor = 50);

CREATE TABLE {queues} (
    name text PRIMARY KEY,
    paused_at timestamptz,
    paused_by text,
    reason text,
    settings jsonb NOT NULL DEFAULT '{}'
);

-- The global gate and the pauses of orgs and job types.
CREATE TABLE {controls} (
    name text PRIMARY KEY,
    value jsonb NOT NULL,
    set_at timestamptz NOT NULL,
    set_by text,
    reason text
);

-- For people, and for hand-written SQL: every job, live or ended, with its shown state.
CREATE VIEW {jobs} AS
SELECT live.*, CAST(NULL AS jsonb) AS result, CAST(NULL AS text) AS outcome, CAST(NULL AS timestamptz) AS ended_at,
    CASE
        WHEN state = 'scheduled' AND attempt > 0 THEN 'retrying'
        WHEN state = 'running' AND NOT EXISTS (
            SELECT FROM {workers} w
            WHERE w.id = live.worker_id AND w.lost_at IS NULL AND w.lease_until > clock_timestamp()
        ) THEN 'stuck'
        ELSE state
    END AS shown
FROM {live} AS live
UNION ALL
SELECT ended.*, CASE WHEN outcome = 'skipped' THEN 'skipped' ELSE state END AS shown
FROM {ended} AS ended;
