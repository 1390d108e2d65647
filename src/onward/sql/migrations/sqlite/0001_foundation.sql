-- Jobs that can still change. Instants are microseconds since 1970; the view `{jobs}` shows them as text.
CREATE TABLE {live} (
    id TEXT PRIMARY KEY NOT NULL,
    org_id TEXT,
    project_id TEXT,
    job_type TEXT NOT NULL,
    queue TEXT NOT NULL,
    category TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('scheduled', 'queued', 'running', 'blocked')),
    priority INTEGER NOT NULL CHECK (priority BETWEEN 1 AND 10),
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
    started_at INTEGER
);

CREATE INDEX {prefix}live_ready ON {live} (queue, priority, run_at, id) WHERE state = 'queued';
CREATE INDEX {prefix}live_due ON {live} (run_at) WHERE state = 'scheduled';
CREATE INDEX {prefix}live_held ON {live} (worker_id) WHERE state = 'running';

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
    ended_at INTEGER NOT NULL
);
CREATE INDEX {prefix}ended_by_state ON {ended} (state, id);

-- Who holds an idempotency key; '' stands for no org and no project, because null is never equal to null.
CREATE TABLE {keys} (
    org_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id TEXT NOT NULL,
    first_seen_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, project_id, key)
) WITHOUT ROWID;

-- Earlier runs of a job; its current or last run is in the job's own row.
CREATE TABLE {attempts} (
    job_id TEXT NOT NULL,
    lease INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    worker_id TEXT,
    started_at INTEGER,
    ended_at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error TEXT,
    PRIMARY KEY (job_id, lease)
) WITHOUT ROWID;

-- Append-only; AUTOINCREMENT, so that a number is never given twice.
CREATE TABLE {audit} (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    job_id TEXT,
    job_type TEXT,
    org_id TEXT,
    project_id TEXT,
    actor_type TEXT,
    actor_id TEXT,
    request_id TEXT,
    correlation_id TEXT,
    attempt INTEGER,
    lease INTEGER,
    worker_id TEXT,
    detail TEXT
);
CREATE INDEX {prefix}audit_of_job ON {audit} (job_id);

CREATE TABLE {workers} (
    id TEXT PRIMARY KEY NOT NULL,
    info TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    idle_since INTEGER,
    lost_at INTEGER
);

CREATE TABLE {queues} (
    name TEXT PRIMARY KEY NOT NULL,
    paused_at INTEGER,
    paused_by TEXT,
    reason TEXT,
    settings TEXT NOT NULL DEFAULT '{}'
);

CREATE TABLE {controls} (
    name TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL,
    set_at INTEGER NOT NULL,
    set_by TEXT,
    reason TEXT
);

-- For people, and for hand-written SQL: every job, live or ended, with its shown state and readable times.
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
    END AS shown
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
    CASE WHEN outcome = 'skipped' THEN 'skipped' ELSE state END AS shown
FROM {ended} AS ended;
