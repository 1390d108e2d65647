-- name: delete_jobs
-- A running job is left alone, because its worker holds it.
INSERT INTO {audit} (
    at, event, job_id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, lease, detail
)
SELECT
    :now, 'job.deleted', id, job_type, org_id, project_id, :actor_type, :actor_id, request_id, correlation_id, lease,
    :detail
FROM {jobs} WHERE {+deletable};
DELETE FROM {attempts} WHERE job_id IN (SELECT id FROM {jobs} WHERE {+deletable});
DELETE FROM {dead_letters} WHERE job_id IN (SELECT id FROM {jobs} WHERE {+deletable});
DELETE FROM {effects} WHERE job_id IN (SELECT id FROM {jobs} WHERE {+deletable});
DELETE FROM {keys}
WHERE job_id IN (:ids::ids) AND (org_id, project_id, key) IN (
    SELECT coalesce(org_id, ''), coalesce(project_id, ''), key FROM {jobs} WHERE {+deletable} AND key IS NOT NULL
);
DELETE FROM {live} WHERE {+deletable}
RETURNING id;
DELETE FROM {ended} WHERE {+deletable}
RETURNING id

-- fragment: deletable
id IN (:ids::ids) AND state <> 'running' AND {+in_scope}
