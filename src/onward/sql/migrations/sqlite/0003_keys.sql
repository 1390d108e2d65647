-- What became of a key's job, kept for when the job itself is removed before its key.
ALTER TABLE {keys} ADD COLUMN status TEXT;
ALTER TABLE {keys} ADD COLUMN result_ref TEXT;
ALTER TABLE {keys} ADD COLUMN error_ref TEXT;

-- The next run of a running job that was reset: a table of its own, because nearly no job has one.
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
    correlation_id TEXT
) WITHOUT ROWID;
-- Those that have just ended are found at once among all.
CREATE INDEX {prefix}live_rerun ON {live} (id) WHERE rerun_requested = 1;
CREATE INDEX {prefix}ended_rerun ON {ended} (id) WHERE rerun_requested = 1;

-- The history of a subject; jobs without one cost nothing.
CREATE INDEX {prefix}live_subject ON {live} (subject, id) WHERE subject IS NOT NULL;
CREATE INDEX {prefix}ended_subject ON {ended} (subject, id) WHERE subject IS NOT NULL;

-- The ledger of keys, for people and for hand-written SQL; '' stands for no org and no project.
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
