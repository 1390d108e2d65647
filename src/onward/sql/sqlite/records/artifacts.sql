-- name: add_artifact
INSERT INTO {audit} (at, event, job_id, org_id, project_id, actor_type, actor_id, detail)
SELECT :now, 'artifact.stored', :job_id, :org_id, :project_id, :actor_type, :actor_id, :detail
WHERE :audited > 0 AND {+given_in_scope};
INSERT INTO {artifacts} ({+new_artifact})
SELECT
    :id, :org_id, :project_id, :job_id, NULL, NULL, {+artifact_content}, :actor_type, :actor_id, :now,
    {+artifact_expiry}
WHERE {+given_in_scope}
RETURNING {+artifact_columns}

-- name: add_job_artifact
-- The audit comes first and shows whether the lease was lost. The owner is read from the job's row. The content is
-- stored under the org that the worker reported, which must be the same.
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'artifact.stored', id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, attempt,
    lease, worker_id, :detail
FROM {live} AS live WHERE :audited > 0 AND {+held_by_run};
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.stale_result_rejected', :job_id, job_type, org_id, project_id, actor_type, actor_id, request_id,
    correlation_id, :attempt, :lease, NULL, :detail
FROM (SELECT 1) LEFT JOIN {jobs} AS job ON job.id = :job_id
WHERE {+in_scope} AND NOT EXISTS (SELECT 1 FROM {live} AS live WHERE {+held_by_run});
INSERT INTO {artifacts} ({+new_artifact})
SELECT
    :id, org_id, project_id, live.id, lease, attempt, {+artifact_content}, actor_type, actor_id, :now,
    {+artifact_expiry}
FROM {live} AS live WHERE {+held_by_run}
RETURNING {+artifact_columns}

-- fragment: held_by_run
live.id = :job_id AND live.lease = :lease AND live.state = 'running'
AND coalesce(live.org_id, '') = coalesce(:org_id, '') AND {scope(live)}

-- fragment: artifact_content
:name, :content_type, :size, :sha256, :place, :data, :roles

-- fragment: artifact_expiry
coalesce(:keep_until, :now + :keep_for)

-- name: delete_artifact
INSERT INTO {audit} (at, event, job_id, org_id, project_id, actor_type, actor_id, attempt, lease, detail)
SELECT
    :now, 'artifact.deleted', job_id, org_id, project_id, :actor_type, :actor_id, attempt, lease,
    json_object({+artifact_detail}, 'reason', :reason)
FROM {artifacts} WHERE id = :id AND {+in_scope};
DELETE FROM {artifacts} WHERE id = :id AND {+in_scope}
RETURNING {+artifact_columns}

-- name: expire_artifacts
INSERT INTO {audit} (at, event, job_id, org_id, project_id, attempt, lease, detail)
SELECT
    :now, 'artifact.expired', job_id, org_id, project_id, attempt, lease, json_object({+artifact_detail})
FROM {artifacts} WHERE id IN ({+expired_artifacts}) AND :audited > 0;
DELETE FROM {artifacts} WHERE id IN ({+expired_artifacts})
RETURNING {+artifact_columns}

-- fragment: expired_artifacts
SELECT id FROM {artifacts} WHERE expires_at <= :now ORDER BY expires_at, id LIMIT :limit

-- fragment: artifact_detail
'artifact_id', id, 'name', name, 'size', size, 'sha256', sha256
