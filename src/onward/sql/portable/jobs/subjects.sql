-- name: find_subject_jobs
SELECT {text(id)}, category, state, CASE WHEN (flow & 2) <> 0 THEN {text(batch_id)} END FROM {live}
WHERE subject = :subject::text AND {+in_scope}
UNION ALL
SELECT {text(id)}, category, state, NULL FROM {ended}
WHERE subject = :subject::text AND {+in_scope}

-- name: free_keys
-- A statement of its own before `doom_jobs`: keys are locked first, then jobs.
DELETE FROM {keys}
WHERE job_id IN (:ids::ids) AND (org_id, project_id, key) IN (
    SELECT coalesce(org_id, ''), coalesce(project_id, ''), key FROM {live}
    WHERE id IN (:ids::ids) AND key IS NOT NULL AND {+in_scope}
)
RETURNING {text(job_id)}

-- name: doom_jobs
-- The bit `Tie.DOOMED`: the follow-up work of their end deletes them.
UPDATE {live} SET flow = flow | 128 WHERE id IN (:ids::ids) AND state = 'running' AND {+in_scope}
RETURNING {text(id)}
