-- fragment: signal_columns
{text(id)}, nullif(org_id, ''), event, nullif(key, ''), {text(payload)}, {micros(at)}, {micros(expires_at)}, actor_type,
actor_id

-- name: find_signal
-- The oldest signal that the job has not received yet: one of its project, or one for all projects of its org.
SELECT {+signal_columns} FROM {signals}
WHERE org_id = :org_id::text AND event = :event::text AND key = :key::text AND expires_at > :now::clock
    AND project_id IN ('', :project_id::text) AND {text(id)} NOT IN (:seen::texts) AND {+of_only_org}
    AND (:only_project::text IS NULL OR :project_id::text = :only_project::text)
ORDER BY at, id
LIMIT 1

-- name: list_signals
SELECT {+signal_columns} FROM {signals}
WHERE (:event::text IS NULL OR event = :event::text)
    AND (:key::text IS NULL OR key = :key::text) AND (:before::text IS NULL OR id < :before::id) AND {+in_scope}
ORDER BY id DESC
LIMIT :limit::int

-- name: list_awaited
-- A row whose job has moved on since then no longer counts.
SELECT {text(job_id)}, nullif(org_id, ''), event, nullif(key, ''), {micros(until)} FROM {awaited} AS waits
WHERE (:job_id::text IS NULL OR job_id = :job_id::id)
    AND (:event::text IS NULL OR event = :event::text) AND (:key::text IS NULL OR key = :key::text)
    AND (:after::text IS NULL OR job_id > :after::id) AND {+in_scope} AND {+still_waits}
ORDER BY job_id
LIMIT :limit::int

-- fragment: still_waits
EXISTS (
    SELECT 1 FROM {live} AS job
    WHERE job.id = waits.job_id AND job.lease = waits.lease AND job.state = 'scheduled' AND job.run_at = waits.until
)

-- name: find_fresh_signals
-- Every worker runs this each second: two probes of an index that is mostly empty. Ordered as no other index is, else
-- a planner that takes fresh rows for common reads the table.
SELECT 1 FROM (SELECT at FROM {signals} WHERE fresh = 1 ORDER BY at LIMIT 1) AS sent
UNION ALL
SELECT 1 FROM (SELECT until FROM {awaited} WHERE fresh = 1 ORDER BY until LIMIT 1) AS begun

-- name: find_ended_waits
SELECT {text(waits.job_id)} FROM {awaited} AS waits
WHERE {+ended_wait}
LIMIT :limit::int

-- fragment: ended_wait
NOT EXISTS (
    SELECT 1 FROM {live} AS job WHERE job.id = waits.job_id AND job.lease = waits.lease AND job.state = 'scheduled'
)
