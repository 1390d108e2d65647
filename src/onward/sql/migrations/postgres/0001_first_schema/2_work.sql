-- Workers and their leases; earlier runs; effects.

-- A job's lease lasts as long as its worker's: one renewal for each worker, never one for each job.
-- A worker that has an org or a project was registered by a client that is confined to it.
CREATE TABLE {workers} (
    id text COLLATE "C" PRIMARY KEY,
    org_id text COLLATE "C",
    project_id text COLLATE "C",
    info jsonb NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    idle_since timestamptz,
    lost_at timestamptz
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 200
);

-- Which worker does work that only one at a time should do; after `until` any other may take over.
CREATE TABLE {leaders} (
    name text COLLATE "C" PRIMARY KEY,
    worker_id text COLLATE "C" NOT NULL,
    until timestamptz NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 200
);

-- Earlier runs of a job; its current or last run is in the job's own row.
-- `cost_micros` is null for a run that metered nothing.
CREATE TABLE {attempts} (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    attempt integer NOT NULL,
    worker_id text,
    started_at timestamptz,
    ended_at timestamptz NOT NULL,
    outcome text NOT NULL,
    error jsonb,
    cost_micros bigint,
    PRIMARY KEY (job_id, lease)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- The newest failures; runs without an error cost nothing.
CREATE INDEX attempts_failed ON {attempts} (ended_at) WHERE error IS NOT NULL;

-- What handlers have done once and the results that they remember: one row for each job and name.
-- `payload_hash` identifies the payload. A new payload and an operator's reset raise `generation`, which is part of
-- the idempotency key. No org_id: the org is that of the job, so that no org can leave an effect for another's job.
CREATE TABLE {effects} (
    job_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('once', 'step')),
    state text COLLATE "C" NOT NULL CHECK (state IN ('begun', 'done', 'reset')),
    payload_hash text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    result jsonb,
    lease bigint NOT NULL,
    attempt integer NOT NULL,
    begun_at timestamptz,
    done_at timestamptz,
    PRIMARY KEY (job_id, name)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- `updated_at` is the last change that a row still shows: made, begun, asked to stop, an attempt over, or ended.
-- Every job, live or ended, with the state that is shown, for people and hand-written SQL.
-- Here and not among the jobs, because a running job is shown as stuck if its worker's lease is over.
CREATE VIEW {jobs} AS
SELECT
    id, org_id, project_id, job_type, queue, category, state, priority, run_at, attempt, max_attempts, lease,
    worker_id, key, subject, payload, progress, cost_micros, actor_type, actor_id, request_id, correlation_id,
    traceparent, parent_id, batch_id, tags, cancel_requested_at, rerun_requested, deadline, timeout_micros, waits,
    crashes, error, created_at, started_at, CAST(NULL AS jsonb) AS result, CAST(NULL AS text) AS outcome,
    CAST(NULL AS timestamptz) AS ended_at,
    CASE
        WHEN state = 'scheduled' AND attempt > 0 THEN 'retrying'
        WHEN state = 'running' AND NOT EXISTS (
            SELECT FROM {workers} w
            WHERE w.id = live.worker_id AND w.lost_at IS NULL AND w.lease_until > clock_timestamp()
        ) THEN 'stuck'
        ELSE state
    END AS shown,
    greatest(
        created_at, started_at, cancel_requested_at,
        (SELECT max(past.ended_at) FROM {attempts} AS past WHERE past.job_id = live.id)
    ) AS updated_at
FROM {live} AS live
UNION ALL
SELECT
    id, org_id, project_id, job_type, queue, category, state, priority, run_at, attempt, max_attempts, lease,
    worker_id, key, subject, payload, progress, cost_micros, actor_type, actor_id, request_id, correlation_id,
    traceparent, parent_id, batch_id, tags, cancel_requested_at, rerun_requested, deadline, timeout_micros, waits,
    crashes, error, created_at, started_at, result, outcome, ended_at,
    CASE WHEN outcome = 'skipped' THEN 'skipped' ELSE state END AS shown, ended_at AS updated_at
FROM {ended} AS ended;
