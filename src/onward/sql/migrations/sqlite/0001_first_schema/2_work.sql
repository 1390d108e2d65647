-- Workers and their leases; earlier runs; effects.

-- A job's lease lasts as long as its worker's: one renewal for each worker, never one for each job.
-- A worker that has an org or a project was registered by a client that is confined to it.
CREATE TABLE {workers} (
    id TEXT PRIMARY KEY NOT NULL,
    org_id TEXT,
    project_id TEXT,
    info TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    idle_since INTEGER,
    lost_at INTEGER
);

-- Which worker does work that only one at a time should do; after `until` any other may take over.
CREATE TABLE {leaders} (
    name TEXT PRIMARY KEY NOT NULL,
    worker_id TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;

-- The jobs of a claim in progress, if the audit does not record claims. Empty outside a transaction.
CREATE TABLE {claimed} (job_id TEXT NOT NULL);

-- Earlier runs of a job; its current or last run is in the job's own row.
-- `cost_micros` is null for a run that metered nothing.
CREATE TABLE {attempts} (
    job_id TEXT NOT NULL,
    lease INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    worker_id TEXT,
    started_at INTEGER,
    ended_at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error TEXT,
    cost_micros INTEGER,
    PRIMARY KEY (job_id, lease)
) WITHOUT ROWID;
-- The newest failures; runs without an error cost nothing.
CREATE INDEX {prefix}attempts_failed ON {attempts} (ended_at) WHERE error IS NOT NULL;

-- What handlers have done once and the results that they remember: one row for each job and name.
-- `payload_hash` identifies the payload. A new payload and an operator's reset raise `generation`, which is part of
-- the idempotency key. No org_id: the org is that of the job, so that no org can leave an effect for another's job.
CREATE TABLE {effects} (
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('once', 'step')),
    state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'reset')),
    payload_hash TEXT NOT NULL,
    generation INTEGER NOT NULL,
    result TEXT,
    lease INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    begun_at INTEGER,
    done_at INTEGER,
    PRIMARY KEY (job_id, name)
);

-- `updated_at` is the last change that a row still shows: made, begun, asked to stop, an attempt over, or ended.
-- Every job, live or ended, with the state that is shown and readable times, for people and hand-written SQL.
-- Here and not among the jobs, because a running job is shown as stuck if its worker's lease is over.
CREATE VIEW {jobs} AS
SELECT
    id, org_id, project_id, job_type, queue, category, state, priority,
    strftime('%Y-%m-%dT%H:%M:%fZ', run_at / 1000000.0, 'unixepoch') AS run_at, attempt, max_attempts, lease,
    worker_id, key, subject, payload, progress, cost_micros, actor_type, actor_id, request_id, correlation_id,
    traceparent, parent_id, batch_id, tags,
    strftime('%Y-%m-%dT%H:%M:%fZ', cancel_requested_at / 1000000.0, 'unixepoch') AS cancel_requested_at,
    rerun_requested, strftime('%Y-%m-%dT%H:%M:%fZ', deadline / 1000000.0, 'unixepoch') AS deadline,
    timeout_micros, waits, crashes, error,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000000.0, 'unixepoch') AS started_at, NULL AS result,
    NULL AS outcome, NULL AS ended_at,
    CASE
        WHEN state = 'scheduled' AND attempt > 0 THEN 'retrying'
        WHEN state = 'running' AND NOT EXISTS (
            SELECT 1 FROM {workers} AS w
            WHERE w.id = live.worker_id AND w.lost_at IS NULL
                AND w.lease_until > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
        ) THEN 'stuck'
        ELSE state
    END AS shown,
    strftime('%Y-%m-%dT%H:%M:%fZ', max(
        created_at, coalesce(started_at, 0), coalesce(cancel_requested_at, 0),
        coalesce((SELECT max(past.ended_at) FROM {attempts} AS past WHERE past.job_id = live.id), 0)
    ) / 1000000.0, 'unixepoch') AS updated_at
FROM {live} AS live
UNION ALL
SELECT
    id, org_id, project_id, job_type, queue, category, state, priority,
    strftime('%Y-%m-%dT%H:%M:%fZ', run_at / 1000000.0, 'unixepoch') AS run_at, attempt, max_attempts, lease,
    worker_id, key, subject, payload, progress, cost_micros, actor_type, actor_id, request_id, correlation_id,
    traceparent, parent_id, batch_id, tags,
    strftime('%Y-%m-%dT%H:%M:%fZ', cancel_requested_at / 1000000.0, 'unixepoch') AS cancel_requested_at,
    rerun_requested, strftime('%Y-%m-%dT%H:%M:%fZ', deadline / 1000000.0, 'unixepoch') AS deadline,
    timeout_micros, waits, crashes, error,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000000.0, 'unixepoch') AS started_at, result, outcome,
    strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000000.0, 'unixepoch') AS ended_at,
    CASE WHEN outcome = 'skipped' THEN 'skipped' ELSE state END AS shown,
    strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000000.0, 'unixepoch') AS updated_at
FROM {ended} AS ended;
