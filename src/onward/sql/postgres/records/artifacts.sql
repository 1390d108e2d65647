-- name: add_artifact
WITH {+clock},
made AS (
    INSERT INTO {artifacts} ({+new_artifact})
    SELECT
        :id::id, :org_id::text, :project_id::text, :job_id::id, NULL, NULL, {+artifact_content}, :actor_type::text,
        :actor_id::text, now, {+artifact_expiry}
    FROM clock
    WHERE {+given_in_scope}
    RETURNING *
),
event AS (
    INSERT INTO {audit} (at, event, job_id, org_id, project_id, actor_type, actor_id, detail)
    SELECT created_at, 'artifact.stored', job_id, org_id, project_id, actor_type, actor_id, :detail::json
    FROM made
    WHERE :audited::int > 0
)
SELECT {+artifact_columns} FROM made

-- name: add_job_artifact
-- The job is locked, so that its lease can't be lost between this look and the commit. The owner is read from the
-- job's row. The content is stored under the org that the worker reported, which must be the same.
WITH {+clock},
holder AS MATERIALIZED (
    SELECT * FROM {live}
    WHERE id = :job_id::id AND lease = :lease::int AND state = 'running'
        AND coalesce(org_id, '') = coalesce(:org_id::text, '') AND {+in_scope}
    FOR SHARE
),
made AS (
    INSERT INTO {artifacts} ({+new_artifact})
    SELECT
        :id::id, org_id, project_id, holder.id, lease, attempt, {+artifact_content}, actor_type, actor_id, now,
        {+artifact_expiry}
    FROM holder, clock
    RETURNING *
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        now, 'artifact.stored', id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id,
        attempt, lease, worker_id, :detail::json
    FROM holder, clock
    WHERE :audited::int > 0
),
refused AS (
    INSERT INTO {audit} ({+refused_columns}, detail)
    SELECT
        now, 'job.stale_result_rejected', :job_id::id, CAST(:attempt::int AS integer), :lease::int, whose.*, :detail::json
    FROM clock LEFT JOIN LATERAL {prefix}whose(:job_id::id) AS whose ON true
    WHERE NOT EXISTS (SELECT FROM holder) AND {+in_scope}
)
SELECT {+artifact_columns} FROM made

-- fragment: artifact_content
:name::text, :content_type::text, :size::int, :sha256::text, :place::text, :data::text, :roles::json

-- fragment: artifact_expiry
coalesce({instant(:keep_until::int)}, {later(now, :keep_for::int)})

-- name: used_content
-- A session from which row-level security hides the orgs would take all of their files for unused.
SELECT DISTINCT org_id, sha256, 0 FROM {artifacts}
WHERE sha256 IN (:digests::texts) AND place <> 'database'
UNION ALL
SELECT NULL, NULL, 1 WHERE row_security_active('{artifacts}')

-- name: delete_artifact
WITH {+clock},
gone AS (DELETE FROM {artifacts} WHERE id = :id::id AND {+in_scope} RETURNING *),
event AS (
    INSERT INTO {audit} (at, event, job_id, org_id, project_id, actor_type, actor_id, attempt, lease, detail)
    SELECT
        now, 'artifact.deleted', job_id, org_id, project_id, :actor_type::text, :actor_id::text, attempt, lease,
        {+artifact_detail} || jsonb_build_object('reason', :reason::text)
    FROM gone, clock
)
SELECT {+artifact_columns} FROM gone

-- name: expire_artifacts
-- MATERIALIZED, else the planner may run the LIMIT again for every row.
WITH {+clock},
due AS MATERIALIZED (
    SELECT artifact.id FROM {artifacts} AS artifact, clock
    WHERE expires_at <= now
    ORDER BY expires_at, artifact.id
    LIMIT :limit::int
    FOR UPDATE OF artifact SKIP LOCKED
),
gone AS (DELETE FROM {artifacts} WHERE id IN (SELECT id FROM due) RETURNING *),
event AS (
    INSERT INTO {audit} (at, event, job_id, org_id, project_id, attempt, lease, detail)
    SELECT now, 'artifact.expired', job_id, org_id, project_id, attempt, lease, {+artifact_detail}
    FROM gone, clock
    WHERE :audited::int > 0
)
SELECT {+artifact_columns} FROM gone

-- fragment: artifact_detail
jsonb_build_object('artifact_id', id, 'name', name, 'size', size, 'sha256', sha256)
