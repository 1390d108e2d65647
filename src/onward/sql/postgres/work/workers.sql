-- name: find_last_knower
-- Its lease ends when a worker retires or falls silent. A worker of one org knows the type for that org only.
SELECT CAST(date_part('epoch', :now::clock - max(least(lease_until, :now::clock))) * 1000000 AS bigint)
FROM {workers}
WHERE info -> 'job_types' @> to_jsonb(:job_type::text)
    AND (org_id IS NULL OR org_id = :org_id::text) AND (project_id IS NULL OR project_id = :project_id::text)
