-- Statements that read the same in both databases.

-- fragment: audit_columns
at, event, job_id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, attempt, lease,
worker_id, detail

-- fragment: end_columns
state, attempt, waits, crashes, error, result, outcome, ended_at

-- fragment: new_columns
id, org_id, project_id, job_type, queue, category, state, priority, run_at, max_attempts, key, subject, payload,
actor_type, actor_id, request_id, correlation_id, traceparent, parent_id, batch_id, tags, deadline, timeout_micros,
created_at

-- name: register_worker
-- An id is for one life of one process: taking over a lost one would revive the leases of its jobs.
INSERT INTO {workers} (id, info, started_at, seen_at, lease_until)
VALUES (:worker::text, :info::json, :now::clock, :now::clock, {later(:now::clock, :lease::int)})
ON CONFLICT (id) DO NOTHING
RETURNING id

-- name: retire_worker
-- From now on its running jobs are anyone's to rescue.
UPDATE {workers}
SET lease_until = :now::clock, lost_at = coalesce(lost_at, :now::clock), idle_since = NULL
WHERE id = :worker::text
RETURNING id

-- name: find_held_jobs
SELECT {job_columns live} FROM {live} AS live
WHERE live.worker_id = :worker::text AND live.state = 'running'
LIMIT :limit::int

-- name: look
-- plan: steady
-- From queue to queue, one probe of the index each, however many jobs wait. ORDER BY with LIMIT, not min(): a
-- planner that knows of no such jobs yet reads them all for min().
SELECT queue, NULL, NULL FROM (
    WITH RECURSIVE ready AS (
        SELECT (SELECT queue FROM {live} WHERE state = 'queued' ORDER BY queue LIMIT 1) AS queue
        UNION ALL
        SELECT (
            SELECT live.queue FROM {live} AS live
            WHERE live.state = 'queued' AND live.queue > ready.queue
            ORDER BY live.queue
            LIMIT 1
        )
        FROM ready
        WHERE ready.queue IS NOT NULL
    )
    SELECT queue FROM ready WHERE queue IS NOT NULL
) AS found
UNION ALL
SELECT
    NULL, (SELECT {micros(run_at)} FROM {live} WHERE state = 'scheduled' ORDER BY run_at LIMIT 1),
    {micros(:now::clock)}

-- name: watch
-- plan: steady
-- Asked twice a second by every worker: of its jobs only those come back that should be cancelled.
SELECT 'worker' AS scope, id AS name, NULL AS reason, NULL AS actor_type, NULL AS actor_id,
    CAST(NULL AS bigint) AS set_at
FROM {workers}
WHERE id = :worker::text AND lost_at IS NULL AND lease_until > :now::clock
UNION ALL
SELECT 'cancel', {text(live.id)}, (
    SELECT {text(audit.detail)} FROM {audit} AS audit
    WHERE audit.job_id = live.id AND audit.event = 'job.cancel_requested'
    ORDER BY audit.seq DESC
    LIMIT 1
), NULL, NULL, NULL
FROM {live} AS live
WHERE live.worker_id = :worker::text AND live.state = 'running' AND live.cancel_requested_at IS NOT NULL
UNION ALL
SELECT {+control_columns} FROM {controls}

-- name: list_controls
SELECT {+control_columns} FROM {controls}

-- fragment: control_columns
scope, name, reason, actor_type, actor_id, {micros(set_at)}

-- name: abdicate
DELETE FROM {leaders} WHERE worker_id = :worker::text
RETURNING name

-- name: get_jobs
SELECT {job_columns live} FROM {live} AS live WHERE id IN (:ids::ids)
UNION ALL
SELECT {job_columns ended} FROM {ended} AS ended WHERE id IN (:ids::ids)

-- name: list_jobs
-- Each table is read newest first by its primary key and only as far as the page goes.
SELECT * FROM (
    SELECT {job_columns live} FROM {live} AS live
    WHERE {+narrowed} AND :outcome::text IS NULL
        AND (:retrying::int IS NULL OR attempt > 0)
        AND (:stuck::int IS NULL OR NOT EXISTS (
            SELECT 1 FROM {workers} AS w
            WHERE w.id = live.worker_id AND w.lost_at IS NULL AND w.lease_until > :now::clock
        ))
    ORDER BY live.id DESC
    LIMIT :limit::int
) AS waiting_or_running
UNION ALL
SELECT * FROM (
    SELECT {job_columns ended} FROM {ended} AS ended
    WHERE {+narrowed} AND (:outcome::text IS NULL OR outcome = :outcome::text)
        AND :retrying::int IS NULL AND :stuck::int IS NULL
    ORDER BY ended.id DESC
    LIMIT :limit::int
) AS finished
ORDER BY 1 DESC
LIMIT :limit::int

-- fragment: narrowed
(:state::text IS NULL OR state = :state::text)
AND (:job_type::text IS NULL OR job_type = :job_type::text)
AND (:queue::text IS NULL OR queue = :queue::text)
AND (:org_id::text IS NULL OR org_id = :org_id::text)
AND (:project_id::text IS NULL OR project_id = :project_id::text)
AND (:key::text IS NULL OR key = :key::text)
AND (:subject::text IS NULL OR subject = :subject::text)
AND (:correlation_id::text IS NULL OR correlation_id = :correlation_id::text)
AND (:above::text IS NULL OR id >= :above::id)
AND (:below::text IS NULL OR id < :below::id)

-- name: count_jobs
-- Live jobs are counted; ended ones only up to a cap, because there may be any number of them.
SELECT queue, state, count(*) FROM {live}
WHERE (:org_id::text IS NULL OR org_id = :org_id::text)
GROUP BY queue, state
UNION ALL
SELECT NULL, 'succeeded', count(*) FROM (
    SELECT 1 FROM {ended} WHERE state = 'succeeded' AND (:org_id::text IS NULL OR org_id = :org_id::text)
    LIMIT :cap::int
) AS succeeded
UNION ALL
SELECT NULL, 'dead', count(*) FROM (
    SELECT 1 FROM {ended} WHERE state = 'dead' AND (:org_id::text IS NULL OR org_id = :org_id::text)
    LIMIT :cap::int
) AS dead
UNION ALL
SELECT NULL, 'cancelled', count(*) FROM (
    SELECT 1 FROM {ended} WHERE state = 'cancelled' AND (:org_id::text IS NULL OR org_id = :org_id::text)
    LIMIT :cap::int
) AS cancelled

-- name: list_attempts
SELECT lease, attempt, worker_id, {micros(started_at)}, {micros(ended_at)}, outcome, {text(error)}
FROM {attempts}
WHERE job_id = :id::id
ORDER BY lease

-- name: list_audit
SELECT {micros(at)}, event, attempt, lease, worker_id, actor_type, actor_id, {text(detail)}
FROM {audit}
WHERE job_id = :id::id
ORDER BY seq
