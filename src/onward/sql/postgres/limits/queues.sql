-- name: declare_queues
INSERT INTO {queues} AS queue (name, settings)
SELECT name, settings FROM :declared::rows(name text, settings jsonb)
ORDER BY name
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings WHERE queue.settings <> excluded.settings
RETURNING name

-- name: lock_queue
-- Claims of a queue with a policy wait for each other here. A claim then sees this row as the last one left it, but
-- other tables as they were before the wait, so the next statement reads those. Sorts and sequential scans are switched
-- off for the claim's transaction: the planner takes a table that was never analysed for a single page, which it would
-- scan and sort.
SELECT {text(settings)}, {text(override)}, paid_at, turn, {micros(:now::clock)} FROM {queues}
WHERE name = :queue::text AND (
    :claims::int = 0
    OR (set_config('enable_sort', 'off', true) = 'off' AND set_config('enable_seqscan', 'off', true) = 'off')
)
FOR UPDATE

-- name: override_queue
WITH {+clock},
made AS (
    INSERT INTO {queues} AS queue (name, override, reason, actor_type, actor_id, set_at)
    SELECT :queue::text, :override::json, :reason::text, :actor_type::text, :actor_id::text, now FROM clock
    ON CONFLICT (name) DO UPDATE
    SET override = excluded.override, reason = excluded.reason, actor_type = excluded.actor_type,
        actor_id = excluded.actor_id, set_at = excluded.set_at
    RETURNING name
),
event AS (
    INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
    SELECT now, :event::text, :actor_type::text, :actor_id::text, :detail::json FROM made, clock
)
SELECT name FROM made

-- name: count_running
-- By the index of running jobs, so that no further index is needed.
-- plan: steady
SELECT count(*) FROM (
    SELECT 1 FROM {live} WHERE state = 'running' AND queue = :queue::text ORDER BY worker_id LIMIT :most::int
) AS running

-- fragment: fair_org
org_id COLLATE "C"

-- fragment: of_asked_org
-- As a range, so that the order begins with the org and only the index of fair jobs has it. With `=` the index of all
-- ready jobs would have that order, too, and a planner that takes the table for empty chooses either.
live.org_id COLLATE "C" >= asked.org_id AND live.org_id COLLATE "C" <= asked.org_id

-- fragment: fair_jobs
state = 'queued' AND fair AND queue = :queue::text

-- name: find_fair_jobs
-- plan: steady
WITH asked AS MATERIALIZED (SELECT * FROM :heads::rows(org_id text, share integer))
SELECT head.* FROM asked CROSS JOIN LATERAL (
    SELECT {+claim_candidate} FROM {live} AS live
    WHERE {+fair_jobs} AND {+of_asked_org} AND {+type_not_paused}
    ORDER BY live.{+fair_org}, live.priority, live.run_at, live.id
    LIMIT asked.share
) AS head
UNION ALL
SELECT head.* FROM asked CROSS JOIN LATERAL (
    SELECT {+claim_candidate} FROM {live} AS live
    WHERE {+fair_jobs} AND live.{+fair_org} IS NULL AND {+type_not_paused}
    ORDER BY live.{+fair_org}, live.priority, live.run_at, live.id
    LIMIT asked.share
) AS head
WHERE asked.org_id IS NULL
UNION ALL
{+unmarked_jobs}

-- name: find_aged_fair_jobs
-- The first jobs of every priority of each org: which of them runs first depends on how long each has waited. The
-- priorities that an org uses are found with one probe each.
WITH asked AS MATERIALIZED (SELECT * FROM :heads::rows(org_id text, share integer))
SELECT head.* FROM asked CROSS JOIN LATERAL (
    WITH RECURSIVE level (priority) AS (
        SELECT (
            SELECT live.priority FROM {live} AS live
            WHERE {+fair_jobs} AND {+of_asked_org}
            ORDER BY live.{+fair_org}, live.priority
            LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT live.priority FROM {live} AS live
            WHERE {+fair_jobs} AND {+of_asked_org} AND live.priority > level.priority
            ORDER BY live.{+fair_org}, live.priority
            LIMIT 1
        )
        FROM level
        WHERE level.priority IS NOT NULL
    )
    SELECT first.* FROM level CROSS JOIN LATERAL (
        SELECT {+claim_candidate} FROM {live} AS live
        WHERE {+fair_jobs} AND {+of_asked_org} AND live.priority = level.priority AND {+type_not_paused}
        ORDER BY live.{+fair_org}, live.run_at, live.id
        LIMIT asked.share
    ) AS first
) AS head
UNION ALL
SELECT head.* FROM asked CROSS JOIN LATERAL (
    WITH RECURSIVE level (priority) AS (
        SELECT (
            SELECT live.priority FROM {live} AS live
            WHERE {+fair_jobs} AND live.{+fair_org} IS NULL
            ORDER BY live.{+fair_org}, live.priority
            LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT live.priority FROM {live} AS live
            WHERE {+fair_jobs} AND live.{+fair_org} IS NULL AND live.priority > level.priority
            ORDER BY live.{+fair_org}, live.priority
            LIMIT 1
        )
        FROM level
        WHERE level.priority IS NOT NULL
    )
    SELECT first.* FROM level CROSS JOIN LATERAL (
        SELECT {+claim_candidate} FROM {live} AS live
        WHERE {+fair_jobs} AND live.{+fair_org} IS NULL AND live.priority = level.priority AND {+type_not_paused}
        ORDER BY live.{+fair_org}, live.run_at, live.id
        LIMIT asked.share
    ) AS first
) AS head
WHERE asked.org_id IS NULL
UNION ALL
{+unmarked_jobs}

-- name: find_aged_jobs
WITH RECURSIVE level (priority) AS (
    {+ready_levels}
)
SELECT head.* FROM level CROSS JOIN LATERAL (
    SELECT {+claim_candidate} FROM {live} AS live
    WHERE queue = :queue::text AND state = 'queued' AND live.priority = level.priority AND {+type_not_paused}
        AND {+org_not_paused}
    ORDER BY live.run_at, live.id
    LIMIT :share::int
) AS head

-- fragment: claim_candidate
{text(live.id)}, live.org_id, live.priority, {micros(live.run_at)}

-- fragment: unmarked_jobs
-- Jobs of applications that do not know that the queue is fair, if they are among the next of the queue.
SELECT {+claim_candidate} FROM (
    SELECT * FROM {live} AS live
    WHERE queue = :queue::text AND state = 'queued'
    ORDER BY priority, run_at, id
    LIMIT :unmarked::int
) AS live
WHERE NOT live.fair AND {+type_not_paused}

-- fragment: type_not_paused
live.job_type NOT IN (:types::texts) AND (:only::text IS NULL OR live.job_type IN (:only::texts))

-- fragment: org_not_paused
(live.org_id IS NULL OR live.org_id NOT IN (:orgs::texts))

-- name: claim_picked_jobs
-- plan: steady
-- By `= ANY (ARRAY[…])`, which only a probe of the primary key can serve, and with an expression for which there is no
-- partial index: with `state = 'queued'` the planner has read all ready jobs and compared each with each.
WITH clock AS MATERIALIZED (SELECT :now::clock AS now),
me AS MATERIALIZED (
    SELECT id FROM {workers}, clock WHERE id = :worker::text AND lost_at IS NULL AND lease_until > now
),
job AS (
    UPDATE {live} AS live
    SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker::text,
        started_at = (SELECT now FROM clock)
    WHERE EXISTS (SELECT FROM me) AND ctid = ANY (ARRAY(
        SELECT live.ctid FROM (:picked::ids) AS picked(id)
        JOIN {live} AS live ON live.id = ANY (ARRAY[picked.id])
        WHERE live.state || '' = 'queued'
        FOR UPDATE OF live SKIP LOCKED
    ))
    RETURNING *
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        started_at, 'job.started', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
        correlation_id, attempt, lease, worker_id, NULL
    FROM job
    WHERE :audited::int > 1
)
SELECT {job_columns job} FROM job
UNION ALL
SELECT {job_nulls} WHERE NOT EXISTS (SELECT FROM me)
