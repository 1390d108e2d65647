-- name: cancel_jobs
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, CASE WHEN state = 'running' THEN 'job.cancel_requested' ELSE 'job.cancelled' END, id, job_type, org_id,
    project_id, :actor_type, :actor_id, request_id, correlation_id, attempt, lease, worker_id, :error
FROM {live} WHERE id IN (:ids::ids) AND (cancel_requested_at IS NULL OR rerun_requested = 1) AND {+in_scope};
-- Also withdraws the further run that a reset has requested.
DELETE FROM {reruns} WHERE job_id IN (SELECT id FROM {live} WHERE id IN (:ids::ids) AND {+in_scope});
UPDATE {live} SET cancel_requested_at = coalesce(cancel_requested_at, :now), rerun_requested = 0
WHERE id IN (:ids::ids) AND state = 'running' AND {+in_scope}
RETURNING id, 'running', 0, NULL;
INSERT INTO {ended} ({carried}, {+end_columns})
SELECT {carried}, 'cancelled', attempt, waits, crashes, :error, NULL, 'cancelled', :now
FROM {live} WHERE id IN (:ids::ids) AND state <> 'running' AND {+in_scope}
RETURNING id, 'cancelled', flow > 0, limit_key;
DELETE FROM {live} WHERE id IN (:ids::ids) AND state <> 'running' AND {+in_scope}

-- name: set_control
-- A pause for the same reason is left as it is, with its actor and its time.
{+control_event}
WHERE NOT EXISTS (SELECT 1 FROM {controls} WHERE scope = :scope AND name = :name AND reason = :reason)
    AND {+control_of_only_org};
INSERT INTO {controls} (scope, name, set_at, actor_type, actor_id, reason)
SELECT :scope, :name, :now, :actor_type, :actor_id, :reason
WHERE {+control_of_only_org}
ON CONFLICT (scope, name) DO UPDATE
SET actor_type = excluded.actor_type, actor_id = excluded.actor_id, reason = excluded.reason
WHERE reason <> excluded.reason
RETURNING scope

-- name: lift_control
{+control_event}
WHERE EXISTS (SELECT 1 FROM {controls} WHERE scope = :scope AND name = :name) AND {+control_of_only_org};
DELETE FROM {controls} WHERE scope = :scope AND name = :name AND {+control_of_only_org}
RETURNING scope

-- fragment: control_event
INSERT INTO {audit} (at, event, job_type, org_id, actor_type, actor_id, detail)
SELECT :now, :event, :job_type, :org_id, :actor_type, :actor_id, :detail
