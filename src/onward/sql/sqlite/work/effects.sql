-- fragment: effect_refused
-- Before the write, to find out whether the lease was lost.
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.stale_result_rejected', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
    correlation_id, :attempt, :lease, NULL, :detail
FROM {jobs}
WHERE id = :job_id AND {+in_scope} AND NOT EXISTS (SELECT 1 FROM {live} AS live WHERE {+effect_held})

-- fragment: effect_held
live.id = :job_id AND live.lease = :lease AND live.state = 'running'
AND {scope(live)}

-- name: begin_effect
{+effect_refused};
INSERT INTO {effects} AS effect ({+new_effect})
SELECT live.id, :name, 'once', 'begun', :payload_hash, 0, NULL, lease, attempt, :now, NULL
FROM {live} AS live WHERE {+effect_held}
ON CONFLICT (job_id, name) DO UPDATE SET {+effect_begun_again}
RETURNING {+effect_columns}

-- name: keep_effect
{+effect_refused};
INSERT INTO {effects} AS effect ({+new_effect})
SELECT live.id, :name, :kind, 'done', :payload_hash, :generation, :result, lease, attempt, NULL, :now
FROM {live} AS live WHERE {+effect_held}
ON CONFLICT (job_id, name) DO UPDATE SET {+effect_kept}
WHERE effect.generation = :seen;
SELECT 1 FROM {live} AS live WHERE {+effect_held}

-- name: reset_effect
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'effect.reset', job.id, job_type, job.org_id, project_id, :actor_type, :actor_id, request_id, correlation_id,
    effect.attempt, effect.lease, NULL, :detail
FROM {effects} AS effect JOIN {jobs} AS job ON job.id = effect.job_id
WHERE effect.job_id = :job_id AND effect.name = :name AND {scope(job)};
UPDATE {effects}
SET state = 'reset', generation = generation + 1, result = NULL, begun_at = NULL, done_at = NULL
WHERE job_id = :job_id AND name = :name AND {+job_in_scope}
RETURNING {+effect_columns}
