-- name: find_parents
{+parents_found}

-- name: add_followers
INSERT INTO {followers} (job_id, parent_id, org_id, needs, on_failure, parent_state, tied)
SELECT job_id, parent_id, org_id, needs, on_failure, parent_state, tied = 1
FROM :edges::rows(
    job_id uuid, parent_id uuid, org_id text, needs text, on_failure text, parent_state text, tied integer
)
WHERE {+of_only_org}
RETURNING CAST(job_id AS text)

-- name: read_followers
-- By `= ANY (ARRAY(…))`, as in all of these: with IN a planner that knows nothing of the table reads all of it.
-- Page by page, because there may be any number of edges, and those that wait for a replay stay in place.
SELECT CAST(job_id AS text), CAST(parent_id AS text), org_id, needs, on_failure FROM {followers}
WHERE parent_id = ANY (ARRAY(:ids::ids)) AND parent_state IS NULL AND (parent_id, job_id) > (:parent::id, :job::id)
ORDER BY parent_id, job_id
LIMIT :limit::int

-- name: follow_jobs
-- Never waits: a parent that another session has locked is marked later. In a caller's transaction, which may be long,
-- only its own new jobs are marked, which no other session sees: the end of any other job would wait for the caller.
UPDATE {live} SET flow = flow | 1
WHERE id = ANY (ARRAY(
    SELECT live.id FROM {live} AS live
    WHERE live.id = ANY (ARRAY(:ids::ids)) AND {+in_scope}
        AND (:own::int = 0 OR live.xmin = CAST(pg_current_xact_id() AS xid))
    ORDER BY live.id
    FOR UPDATE SKIP LOCKED
))
RETURNING CAST(id AS text)

-- name: follow_dead_jobs
-- A replay carries the mark along. The mark adds no follow-up work, so a finished end stays finished.
UPDATE {ended} SET flow = CASE WHEN flow > 0 THEN flow | 1 ELSE -(abs(flow) | 1) END
WHERE id = ANY (ARRAY(
    SELECT gone.id FROM {ended} AS gone WHERE gone.id IN (:ids::ids) AND gone.state = 'dead' AND {+in_scope}
    ORDER BY gone.id
    FOR UPDATE SKIP LOCKED
))
RETURNING CAST(id AS text)

-- name: tie_followers
UPDATE {followers} AS edge SET tied = true
FROM :tied::rows(job_id uuid, parent_id uuid)
WHERE edge.job_id = tied.job_id AND edge.parent_id = tied.parent_id AND {+of_only_org}
RETURNING CAST(edge.job_id AS text)

-- name: lock_followers
-- Locked before anything is decided, because two parents of a follower may end at once. Never waits, since a caller's
-- transaction may hold a follower for long, and all ends of a worker would wait with it. The last column is 1 for
-- followers that another session holds.
WITH locked (id, org_id, pending, run_at, limit_key, now) AS MATERIALIZED (
    SELECT {+waiting_columns} FROM {live}
    WHERE id = ANY (ARRAY(:ids::ids)) AND state = 'blocked' AND pending > 0 AND {+in_scope}
    ORDER BY {live}.id
    FOR UPDATE SKIP LOCKED
)
SELECT *, 0 FROM locked
UNION ALL
SELECT {+waiting_columns}, 1 FROM {live}
WHERE id = ANY (ARRAY(:ids::ids)) AND state = 'blocked' AND pending > 0 AND {+in_scope}
    AND CAST(id AS text) NOT IN (SELECT locked.id FROM locked)

-- name: resolve_followers
-- Only once: a second transaction finds nothing to resolve.
UPDATE {followers} AS edge SET parent_state = resolved.state, tied = true
FROM :resolved::rows(job_id uuid, parent_id uuid, state text)
WHERE edge.job_id = resolved.job_id AND edge.parent_id = resolved.parent_id AND edge.parent_state IS NULL
    AND {+of_only_org}
RETURNING CAST(edge.job_id AS text), CAST(edge.parent_id AS text)

-- name: move_followers
-- Ready from now on: the time spent waiting for parents does not count as waiting for a worker. The rows are locked,
-- so their ids are enough.
WITH {+clock},
moved AS (
    UPDATE {live} AS live
    SET pending = released.pending, state = released.state,
        run_at = CASE WHEN released.pending = 0 THEN greatest(live.run_at, clock.now) ELSE live.run_at END
    FROM :released::rows(id uuid, pending integer, state text), clock
    WHERE live.id = ANY (ARRAY[released.id]) AND {+in_scope}
    RETURNING live.id, live.queue, live.state
),
woken AS MATERIALIZED (
    SELECT count(pg_notify('{channel}', queue)) AS sent
    FROM (SELECT DISTINCT queue FROM moved WHERE state = 'queued') AS ready
    WHERE {+someone_idles}
)
SELECT CAST(moved.id AS text) FROM moved, woken WHERE woken.sent >= 0

-- name: cancel_followers
WITH {+clock},
gone AS (
    DELETE FROM {live} AS live USING :broken::rows(id uuid, error jsonb)
    WHERE live.id = ANY (ARRAY[broken.id]) AND {+in_scope}
    RETURNING {carried live}, live.attempt, live.waits, live.crashes, broken.error
),
moved AS (
    INSERT INTO {ended} ({carried}, {+end_columns})
    SELECT {carried gone}, 'cancelled', attempt, waits, crashes, error, NULL, 'cancelled', now FROM gone, clock
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        now, {+cancelled_follower}, id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id,
        attempt, lease, NULL, error
    FROM gone, clock
    WHERE :audited::int > 0
)
SELECT CAST(id AS text), flow FROM gone

-- name: untie_followers
-- Their parents are gone or will not be replayed: a worker's loop finds these edges and resolves them.
UPDATE {followers} SET tied = false
WHERE parent_id = ANY (ARRAY(:ids::ids)) AND parent_state IS NULL AND {+of_only_org}
RETURNING CAST(job_id AS text)

-- name: forget_followers
-- The edges from removed jobs to their parents.
DELETE FROM {followers} WHERE job_id = ANY (ARRAY(:ids::ids)) AND {+of_only_org}
RETURNING CAST(job_id AS text)

-- name: hand_over_followers
-- The followers of a dead job now wait for the job that replaces it.
UPDATE {followers} SET parent_id = :successor::id, tied = false
WHERE parent_id = :id::id AND parent_state IS NULL AND {+of_only_org}
RETURNING CAST(job_id AS text)
