-- name: find_subject_jobs
SELECT {text(id)}, category, state, CASE WHEN (flow & 2) <> 0 THEN {text(batch_id)} END FROM {live}
WHERE subject = :subject::text AND {+in_scope}
UNION ALL
SELECT {text(id)}, category, state, NULL FROM {ended}
WHERE subject = :subject::text AND {+in_scope}

-- name: doom_jobs
-- The bit `Tie.DOOMED`: the follow-up work of their end deletes them.
UPDATE {live} SET flow = flow | 128 WHERE id IN (:ids::ids) AND state = 'running' AND {+in_scope}
RETURNING {text(id)}
