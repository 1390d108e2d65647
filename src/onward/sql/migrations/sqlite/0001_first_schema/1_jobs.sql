-- Jobs, live and ended; idempotency keys; reruns.
-- In all files here: instants are microseconds since 1970; the view `{jobs}` shows them as text.

-- Jobs that can still change. Small and hot: a job that has ended is moved to `ended`.
-- `flow` has bits for the follow-up work of the job's end; `pending` counts the jobs for which it waits.
CREATE TABLE {live} (
    id TEXT PRIMARY KEY NOT NULL,
    org_id TEXT,
    project_id TEXT,
    job_type TEXT NOT NULL,
    queue TEXT NOT NULL,
    category TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('scheduled', 'queued', 'running', 'blocked')),
    priority INTEGER NOT NULL CHECK (priority BETWEEN -1000 AND 1000),
    run_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    lease INTEGER NOT NULL DEFAULT 0,
    worker_id TEXT,
    key TEXT,
    subject TEXT,
    payload TEXT NOT NULL,
    progress TEXT,
    cost_micros INTEGER NOT NULL DEFAULT 0,
    actor_type TEXT,
    actor_id TEXT,
    request_id TEXT,
    correlation_id TEXT,
    traceparent TEXT,
    parent_id TEXT,
    batch_id TEXT,
    tags TEXT,
    cancel_requested_at INTEGER,
    rerun_requested INTEGER NOT NULL DEFAULT 0,
    deadline INTEGER,
    timeout_micros INTEGER,
    waits INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    flow INTEGER NOT NULL DEFAULT 0,
    pending INTEGER NOT NULL DEFAULT 0,
    limit_key TEXT,
    fair INTEGER NOT NULL DEFAULT 0
);
-- Partial, so that a claim never reads jobs that are not ready.
CREATE INDEX {prefix}live_ready ON {live} (queue, priority, run_at, id) WHERE state = 'queued';
CREATE INDEX {prefix}live_due ON {live} (run_at) WHERE state = 'scheduled';
CREATE INDEX {prefix}live_held ON {live} (worker_id) WHERE state = 'running';
-- Jobs that are to run again as soon as they have ended.
CREATE INDEX {prefix}live_rerun ON {live} (id) WHERE rerun_requested = 1;
-- The history of a subject; jobs without one cost nothing.
CREATE INDEX {prefix}live_subject ON {live} (subject, id) WHERE subject IS NOT NULL;

-- Jobs that have ended. `flow` is negative once the follow-up work of the end is done.
CREATE TABLE {ended} (
    id TEXT PRIMARY KEY NOT NULL,
    org_id TEXT,
    project_id TEXT,
    job_type TEXT NOT NULL,
    queue TEXT NOT NULL,
    category TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('succeeded', 'dead', 'cancelled')),
    priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    worker_id TEXT,
    key TEXT,
    subject TEXT,
    payload TEXT NOT NULL,
    progress TEXT,
    cost_micros INTEGER NOT NULL,
    actor_type TEXT,
    actor_id TEXT,
    request_id TEXT,
    correlation_id TEXT,
    traceparent TEXT,
    parent_id TEXT,
    batch_id TEXT,
    tags TEXT,
    cancel_requested_at INTEGER,
    rerun_requested INTEGER NOT NULL,
    deadline INTEGER,
    timeout_micros INTEGER,
    waits INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    error TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    result TEXT,
    outcome TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    flow INTEGER NOT NULL DEFAULT 0,
    limit_key TEXT,
    fair INTEGER NOT NULL DEFAULT 0
);
-- Most jobs succeed: an index of only the others costs those nothing. With the lease, by which a death is resolved.
CREATE INDEX {prefix}ended_dead ON {ended} (id, lease) WHERE state = 'dead';
CREATE INDEX {prefix}ended_cancelled ON {ended} (id) WHERE state = 'cancelled';
CREATE INDEX {prefix}ended_rerun ON {ended} (id) WHERE rerun_requested = 1;
CREATE INDEX {prefix}ended_subject ON {ended} (subject, id) WHERE subject IS NOT NULL;

-- Which job holds an idempotency key; '' stands for no org and no project, because null is never equal to null.
-- `status`, `result_ref` and `error_ref` outlive the job, which may be removed before its key.
CREATE TABLE {keys} (
    org_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id TEXT NOT NULL,
    first_seen_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    status TEXT,
    result_ref TEXT,
    error_ref TEXT,
    PRIMARY KEY (org_id, project_id, key)
) WITHOUT ROWID;

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
    k.first_seen_at, k.last_seen_at, nullif(k.expires_at, 9223372036854775807) AS expires_at,
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
    job_id TEXT PRIMARY KEY NOT NULL,
    payload TEXT NOT NULL,
    priority INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    deadline INTEGER,
    timeout_micros INTEGER,
    actor_type TEXT,
    actor_id TEXT,
    request_id TEXT,
    correlation_id TEXT,
    traceparent TEXT,
    limit_key TEXT
) WITHOUT ROWID;
