-- fragment: artifact_columns
{text(id)}, org_id, project_id, {text(job_id)}, lease, attempt, name, content_type, size, sha256, place, {text(roles)},
actor_type, actor_id, {micros(created_at)}, {micros(expires_at)}

-- fragment: new_artifact
id, org_id, project_id, job_id, lease, attempt, name, content_type, size, sha256, place, data, roles, actor_type,
actor_id, created_at, expires_at

-- fragment: not_expired
(expires_at IS NULL OR expires_at > :now::clock)

-- name: installation
SELECT value FROM {settings} WHERE name = 'installation'

-- name: get_artifact
-- A job reads only artifacts of its own org, whatever its payload says; '' stands for no org, as in the keys.
SELECT {+artifact_columns}, data FROM {artifacts}
WHERE id = :id::id AND {+in_scope} AND {+not_expired}
    AND (:of_org::int = 0 OR coalesce(org_id, '') = coalesce(:org_id::text, ''))

-- name: list_artifacts
SELECT {+artifact_columns} FROM {artifacts}
WHERE {+in_scope} AND {+not_expired}
    AND (:job_id::text IS NULL OR job_id = :job_id::id)
    AND (:name::text IS NULL OR name = :name::text)
    AND (:below::text IS NULL OR id < :below::id)
ORDER BY id DESC
LIMIT :limit::int

-- name: used_content
-- By the digest alone, because the folder of an org does not reveal its name.
SELECT DISTINCT org_id, sha256, 0 FROM {artifacts}
WHERE sha256 IN (:digests::texts) AND place <> 'database'
