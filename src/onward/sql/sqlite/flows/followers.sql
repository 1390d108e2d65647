-- name: find_parents
-- Deletes nothing: a caller's transaction becomes the writer before it reads.
DELETE FROM {followers} WHERE false AND {+of_only_org};
{+parents_found}

-- name: add_followers
-- all edges
INSERT INTO {followers} (job_id, parent_id, org_id, needs, on_failure, parent_state, tied)
SELECT
    :edges.job_id, :edges.parent_id, :edges.org_id, :edges.needs, :edges.on_failure, :edges.parent_state, :edges.tied
FROM :edges::rows AS edges
WHERE :only_org IS NULL OR :edges.org_id = :only_org
RETURNING job_id

-- name: read_followers
-- Page by page, because there may be any number of edges, and those that wait for a replay stay in place.
SELECT job_id, parent_id, org_id, needs, on_failure FROM {followers}
WHERE parent_id IN (:ids::ids) AND parent_state IS NULL AND (parent_id, job_id) > (:parent::id, :job::id)
ORDER BY parent_id, job_id
LIMIT :limit::int

-- name: follow_jobs
-- SQLite has one writer at a time, so this never waits for a row.
UPDATE {live} SET flow = flow | 1 WHERE id IN (:ids::ids) AND {+in_scope}
RETURNING id

-- name: follow_dead_jobs
-- A replay carries the mark along. The mark adds no follow-up work, so a finished end stays finished.
UPDATE {ended} SET flow = CASE WHEN flow > 0 THEN flow | 1 ELSE -(abs(flow) | 1) END
WHERE id IN (:ids::ids) AND state = 'dead' AND {+in_scope}
RETURNING id

-- name: tie_followers
-- all tied
UPDATE {followers} AS edge SET tied = 1
FROM :tied::rows AS tied
WHERE edge.job_id = :tied.job_id AND edge.parent_id = :tied.parent_id AND {+of_only_org}
RETURNING job_id

-- name: lock_followers
SELECT {+waiting_columns}, 0 FROM {live}
WHERE id IN (:ids::ids) AND state = 'blocked' AND pending > 0 AND {+in_scope}
ORDER BY id

-- name: resolve_followers
-- Only once: a second transaction finds nothing to resolve.
-- all resolved
UPDATE {followers} AS edge SET parent_state = :resolved.state, tied = 1
FROM :resolved::rows AS resolved
WHERE edge.job_id = :resolved.job_id AND edge.parent_id = :resolved.parent_id AND edge.parent_state IS NULL
    AND {+of_only_org}
RETURNING job_id, parent_id

-- name: move_followers
-- Ready from now on: the time spent waiting for parents does not count as waiting for a worker.
-- all released
UPDATE {live} AS live
SET pending = :released.pending, state = :released.state,
    run_at = CASE WHEN :released.pending = 0 THEN max(live.run_at, :now) ELSE live.run_at END
FROM :released::rows AS released
WHERE live.id = :released.id AND live.state = 'blocked' AND live.pending > 0 AND {+in_scope}
RETURNING id

-- name: cancel_followers
-- when audited >= 1
-- all broken
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, {+cancelled_follower}, live.id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id,
    attempt, lease, NULL, :broken.error
FROM :broken::rows AS broken CROSS JOIN {live} AS live ON {+broken_follower};
-- all broken
INSERT INTO {ended} ({carried}, {+end_columns})
SELECT {carried live}, 'cancelled', attempt, waits, crashes, :broken.error, NULL, 'cancelled', :now
FROM :broken::rows AS broken CROSS JOIN {live} AS live ON {+broken_follower}
RETURNING id, flow;
-- all broken
DELETE FROM {live} WHERE id IN (
    SELECT live.id FROM :broken::rows AS broken CROSS JOIN {live} AS live ON {+broken_follower}
)

-- fragment: broken_follower
live.id = :broken.id AND live.state = 'blocked' AND live.pending > 0 AND {+in_scope}

-- name: untie_followers
-- Their parents are gone or will not be replayed: a worker's loop finds these edges and resolves them.
UPDATE {followers} SET tied = 0
WHERE parent_id IN (:ids::ids) AND parent_state IS NULL AND {+of_only_org}
RETURNING job_id

-- name: forget_followers
-- The edges from removed jobs to their parents.
DELETE FROM {followers} WHERE job_id IN (:ids::ids) AND {+of_only_org}
RETURNING job_id

-- name: hand_over_followers
-- The followers of a dead job now wait for the job that replaces it.
UPDATE {followers} SET parent_id = :successor, tied = 0
WHERE parent_id = :id AND parent_state IS NULL AND {+of_only_org}
RETURNING job_id
