-- fragment: reset_columns
id, org_id, project_id, job_type, queue, category, state, priority, run_at, max_attempts, lease, key, subject, payload,
cost_micros, actor_type, actor_id, request_id, correlation_id, traceparent, parent_id, batch_id, tags, deadline,
timeout_micros, created_at, flow, limit_key, fair

-- fragment: key_columns
nullif(org_id, ''), nullif(project_id, ''), key, {text(job_id)}, status, {micros(first_seen_at)}, {micros(last_seen_at)},
{micros(expires_at)}, result_ref, error_ref

-- name: get_key
SELECT {+key_columns} FROM {ledger}
WHERE org_id = coalesce(nullif(:org_id::text, ''), :only_org::text, '') AND project_id = :project_id::text
    AND key = :key::text AND {+in_scope}

-- name: list_keys
SELECT {+key_columns} FROM {ledger}
WHERE {+in_scope}
    AND (org_id, project_id, key) > (:after_org_id::text, :after_project_id::text, :after_key::text)
ORDER BY org_id, project_id, key
LIMIT :limit::int

-- name: end_of_keys
-- Page by page through the table: an index by expiry would cost every enqueue with a key.
SELECT org_id, project_id, key FROM (
    SELECT org_id, project_id, key FROM {keys}
    WHERE (org_id, project_id, key) > (:org_id::text, :project_id::text, :key::text)
    ORDER BY org_id, project_id, key
    LIMIT :limit::int
) AS page
ORDER BY org_id DESC, project_id DESC, key DESC
LIMIT 1

-- fragment: lapsed
(org_id, project_id, key) > (:org_id::text, :project_id::text, :key::text)
AND (org_id, project_id, key) <= (:end_org::text, :end_project::text, :end_key::text) AND expires_at <= :now::clock

-- fragment: run_cost
(SELECT sum(used.cost_micros) FROM {usage} AS used WHERE used.job_id = gone.id AND used.lease = gone.lease)

-- name: read_held_job
-- A statement of its own after the lock, because only so does it see what was committed during the wait for the lock.
SELECT
    live.state, {text(live.payload)}, {text(rerun.payload)}, {micros(live.created_at)}, {micros(live.started_at)},
    {micros(live.run_at)}, live.attempt, {micros(:now::clock)}
FROM {live} AS live LEFT JOIN {reruns} AS rerun ON rerun.job_id = live.id AND live.rerun_requested
WHERE live.id = :id::id AND live.job_type = :job_type::text
    AND {scope(live)}
