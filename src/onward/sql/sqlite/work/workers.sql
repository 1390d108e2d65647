-- name: find_last_knower
-- Its lease ends when a worker retires or falls silent. A worker of one org knows the type for that org only.
SELECT :now - max(min(lease_until, :now))
FROM {workers}
WHERE :job_type IN (SELECT value FROM json_each(info, '$.job_types'))
    AND (org_id IS NULL OR org_id = :org_id) AND (project_id IS NULL OR project_id = :project_id)
