-- fragment: parents_found
-- One statement, so one view of both tables: a job that ends meanwhile is in exactly one of them. A resolved death is
-- final: no replay follows it.
SELECT {text(id)}, org_id, state, job_type, 0 FROM {live} WHERE id IN (:ids::ids) AND {+in_scope}
UNION ALL
SELECT {text(id)}, org_id, state, job_type, CASE WHEN state = 'dead' AND NOT ({+unresolved}) THEN 1 ELSE 0 END
FROM {ended} AS gone WHERE id IN (:ids::ids) AND {+in_scope}

-- name: find_untied
-- Nearly always none. A parent that stays locked for long delays no other edge.
SELECT {text(job_id)}, {text(parent_id)}, org_id, needs, on_failure FROM {followers}
WHERE NOT tied
ORDER BY job_id, parent_id
LIMIT :limit::int

-- name: list_links
SELECT {text(job_id)}, {text(parent_id)}, needs, on_failure, parent_state FROM {followers}
WHERE job_id IN (:ids::ids) AND {+job_in_scope}
UNION
SELECT {text(job_id)}, {text(parent_id)}, needs, on_failure, parent_state FROM {followers}
WHERE parent_id IN (:ids::ids) AND {+job_in_scope}
ORDER BY 1, 2
LIMIT :limit::int

-- name: list_parents
SELECT {text(parent_id)} FROM {followers}
WHERE job_id = :id::id AND (:after::text IS NULL OR parent_id > :after::id) AND {+of_only_org}
ORDER BY parent_id
LIMIT :limit::int

-- name: list_followers
SELECT {text(job_id)} FROM {followers}
WHERE parent_id = :id::id AND (:after::text IS NULL OR job_id > :after::id) AND {+of_only_org}
ORDER BY job_id
LIMIT :limit::int

-- name: list_children
SELECT {text(id)} FROM {live}
WHERE parent_id = :id::id AND (:after::text IS NULL OR id > :after::id) AND {+in_scope}
UNION ALL
SELECT {text(id)} FROM {ended}
WHERE parent_id = :id::id AND (:after::text IS NULL OR id > :after::id) AND {+in_scope}
ORDER BY 1
LIMIT :limit::int

-- fragment: waiting_columns
{text(id)}, org_id, pending, {micros(run_at)}, limit_key, {micros(:now::clock)}

-- fragment: cancelled_follower
-- Without an actor: it follows from another end.
'job.cancelled'

-- name: sample_dead_followed
-- Among the newest deaths only.
SELECT {text(gone.id)}, gone.job_type, count(*)
FROM (
    SELECT id, job_type, flow FROM {ended} WHERE state = 'dead' ORDER BY ended_at DESC LIMIT :newest::int
) AS gone
JOIN {followers} AS edge ON edge.parent_id = gone.id AND edge.parent_state IS NULL
WHERE gone.flow <> 0
GROUP BY gone.id, gone.job_type
ORDER BY 3 DESC, 1
LIMIT :limit::int
