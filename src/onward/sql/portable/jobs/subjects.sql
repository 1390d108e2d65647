-- name: find_subject_jobs
SELECT {text(id)}, category, state, CASE WHEN (flow & 2) <> 0 THEN {text(batch_id)} END FROM {live}
WHERE subject = :subject::text AND {+of_org}
UNION ALL
SELECT {text(id)}, category, state, NULL FROM {ended}
WHERE subject = :subject::text AND {+of_org}

-- fragment: of_org
(:org_id::text IS NULL OR org_id = :org_id::text) AND (:only_org::text IS NULL OR org_id = :only_org::text)
