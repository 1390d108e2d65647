-- name: get_jobs
SELECT {job_columns live} FROM {live} AS live WHERE id IN (:ids::ids) AND {+in_scope}
UNION ALL
SELECT {job_columns ended} FROM {ended} AS ended WHERE id IN (:ids::ids) AND {+in_scope}

-- fragment: newest
DESC

-- fragment: oldest
ASC

-- fragment: <live|ended>_of_any
:in_<1>::int = 1

-- fragment: <live|ended>_of_subject
:in_<1>::int = 1 AND subject = :subject::text

-- fragment: <live|ended>_of_<batch_id|parent_id>
:in_<1>::int = 1 AND <2> = :<2>::id

-- fragment: <live|ended>_of_dead
-- As a literal: SQLite matches no parameter with the condition of an index. No live job is dead.
:in_<1>::int = 1 AND state = 'dead'

-- name: find_reach_<newest|oldest>_of_<any|subject|batch_id|parent_id|dead>
-- The last job at which a page may look. Nothing is found if no condition is left that any of them could fail.
SELECT {text(reached.id)} FROM (
    SELECT * FROM (
        SELECT id FROM {live}
        WHERE {+live_of_<2>} AND {+in_range} AND (:filtered::int = 1 OR {+is_confined})
        ORDER BY id {+<1>}
        LIMIT 1 OFFSET :reach::int
    ) AS waiting_or_running
    UNION ALL
    SELECT * FROM (
        SELECT id FROM {ended}
        WHERE {+ended_of_<2>} AND {+in_range} AND (:filtered::int = 1 OR {+is_confined})
        ORDER BY id {+<1>}
        LIMIT 1 OFFSET :reach::int
    ) AS finished
) AS reached
ORDER BY reached.id {+<1>}
LIMIT 1

-- name: list_jobs_<newest|oldest>_of_<any|subject|batch_id|parent_id|dead>
-- Each table is read in the order of an index that begins with the second word of the name, and only as far as the
-- page goes. A statement for each, because SQLite uses no index for a parameter that may be null.
SELECT * FROM (
    SELECT {job_columns live} FROM {live} AS live
    WHERE {+live_of_<2>} AND {+in_range} AND {+narrowed} AND {+live_state}
    ORDER BY live.id {+<1>}
    LIMIT :limit::int
) AS waiting_or_running
UNION ALL
SELECT * FROM (
    SELECT {job_columns ended} FROM {ended} AS ended
    WHERE {+ended_of_<2>} AND {+in_range} AND {+narrowed} AND {+ended_state}
        AND (:unresolved::int IS NULL OR NOT EXISTS (
            SELECT 1 FROM {dead_letters} AS letter WHERE letter.job_id = ended.id AND letter.lease = ended.lease
        ))
    ORDER BY ended.id {+<1>}
    LIMIT :limit::int
) AS finished
ORDER BY 1 {+<1>}
LIMIT :limit::int

-- fragment: in_range
-- Never null: SQLite searches an index for a bound only if it is always there.
id >= :above::id AND id < :below::id

-- fragment: narrowed
{+in_scope}
AND (:job_type::text IS NULL OR job_type = :job_type::text)
AND (:queue::text IS NULL OR queue = :queue::text)
AND (:category::text IS NULL OR category = :category::text)
AND (:org_id::text IS NULL OR org_id = :org_id::text)
AND (:project_id::text IS NULL OR project_id = :project_id::text)
AND (:key::text IS NULL OR key = :key::text)
AND (:subject::text IS NULL OR subject = :subject::text)
AND (:correlation_id::text IS NULL OR correlation_id = :correlation_id::text)
AND (:request_id::text IS NULL OR request_id = :request_id::text)
AND (:worker_id::text IS NULL OR worker_id = :worker_id::text)
AND (:by_type::text IS NULL OR actor_type = :by_type::text)
AND (:by_id::text IS NULL OR actor_id = :by_id::text)
AND (:batch_id::text IS NULL OR batch_id = :batch_id::id)
AND (:parent_id::text IS NULL OR parent_id = :parent_id::id)
AND (:tags::text IS NULL OR {+has_tags})

-- fragment: live_state
(
    :states::text IS NULL OR state IN (:states::texts)
    OR (:retrying::int = 1 AND state = 'scheduled' AND attempt > 0)
    OR (:stuck::int = 1 AND state = 'running' AND NOT EXISTS (
        SELECT 1 FROM {workers} AS w
        WHERE w.id = live.worker_id AND w.lost_at IS NULL AND w.lease_until > :now::clock
    ))
)

-- fragment: ended_state
(
    :states::text IS NULL OR state IN (:states::texts)
    OR (:skipped::int = 1 AND state = 'succeeded' AND outcome = 'skipped')
)

-- name: count_jobs
-- Each state of each queue is counted by an index and up to a cap, because there may be any number of jobs. For a
-- confined client only the jobs of its org are counted among those that the cap admits. Blocked jobs have no index: a
-- worker whose plans were made on an empty table would walk it for each admission.
SELECT queue, 'queued', CASE
    WHEN NOT {+is_confined} THEN (SELECT count(*) FROM (
        SELECT 1 FROM {live} AS one
        WHERE one.state = 'queued' AND one.queue = ready.queue
        ORDER BY one.priority, one.run_at, one.id
        LIMIT :live_cap::int
    ) AS counted)
    ELSE (SELECT count(*) FROM (
        SELECT one.org_id, one.project_id FROM {live} AS one
        WHERE one.state = 'queued' AND one.queue = ready.queue
        ORDER BY one.priority, one.run_at, one.id
        LIMIT :live_cap::int
    ) AS counted WHERE {+in_scope})
END
FROM (
    WITH RECURSIVE found AS (
        SELECT (SELECT queue FROM {live} WHERE state = 'queued' ORDER BY queue LIMIT 1) AS queue
        UNION ALL
        SELECT (
            SELECT live.queue FROM {live} AS live
            WHERE live.state = 'queued' AND live.queue > found.queue
            ORDER BY live.queue
            LIMIT 1
        )
        FROM found
        WHERE found.queue IS NOT NULL
    )
    SELECT queue FROM found WHERE queue IS NOT NULL
) AS ready
UNION ALL
SELECT queue, 'running', count(*) FROM (
    SELECT queue, org_id, project_id FROM {live} WHERE state = 'running' ORDER BY worker_id LIMIT :live_cap::int
) AS running WHERE {+in_scope} GROUP BY queue
UNION ALL
SELECT queue, 'scheduled', count(*) FROM (
    SELECT queue, org_id, project_id FROM {live} WHERE state = 'scheduled' ORDER BY run_at LIMIT :live_cap::int
) AS scheduled WHERE {+in_scope} GROUP BY queue
UNION ALL
SELECT queue, 'blocked', count(*) FROM (
    SELECT queue, org_id, project_id, state FROM {live} ORDER BY id DESC LIMIT :live_cap::int
) AS newest WHERE state = 'blocked' AND {+in_scope} GROUP BY queue
UNION ALL
SELECT NULL, 'succeeded', count(*) FROM (
    SELECT state, org_id, project_id FROM {ended} ORDER BY id DESC LIMIT :cap::int
) AS succeeded
WHERE state = 'succeeded' AND {+in_scope}
UNION ALL
SELECT NULL, 'dead', {+counted_dead}
UNION ALL
SELECT NULL, 'cancelled', {+counted_cancelled}
UNION ALL
SELECT 'q:deadletter', 'dead', CASE
    WHEN NOT {+is_confined} THEN (SELECT count(*) FROM (
        SELECT id, lease FROM {ended} WHERE state = 'dead' ORDER BY id DESC LIMIT :cap::int
    ) AS gone WHERE {+unresolved})
    ELSE (SELECT count(*) FROM (
        SELECT id, lease, org_id, project_id FROM {ended} WHERE state = 'dead' ORDER BY id DESC LIMIT :cap::int
    ) AS gone WHERE {+in_scope} AND {+unresolved})
END

-- fragment: counted_<dead|cancelled>
-- Without the org an index is all that is read.
CASE
    WHEN NOT {+is_confined} THEN (SELECT count(*) FROM (
        SELECT id FROM {ended} WHERE state = '<1>' ORDER BY id DESC LIMIT :cap::int
    ) AS counted)
    ELSE (SELECT count(*) FROM (
        SELECT org_id, project_id FROM {ended} WHERE state = '<1>' ORDER BY id DESC LIMIT :cap::int
    ) AS counted WHERE {+in_scope})
END

-- name: list_attempts
SELECT lease, attempt, worker_id, {micros(started_at)}, {micros(ended_at)}, outcome, {text(error)}, cost_micros
FROM {attempts}
WHERE job_id = :id::id AND lease > :after::int AND {+job_in_scope}
ORDER BY lease
LIMIT :limit::int

-- name: sum_attempts
SELECT max(lease), CAST(sum(cost_micros) AS bigint) FROM {attempts} WHERE job_id = :id::id AND {+job_in_scope}
