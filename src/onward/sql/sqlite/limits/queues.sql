-- name: declare_queues
-- each declared
INSERT INTO {queues} (name, settings) VALUES (:declared.name, :declared.settings)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings WHERE settings <> excluded.settings
RETURNING name

-- name: lock_queue
-- Deletes nothing: the transaction becomes the writer before it reads.
DELETE FROM {queues} WHERE name IS NULL;
SELECT settings, override, paid_at, turn, :now FROM {queues} WHERE name = :queue

-- name: override_queue
INSERT INTO {queues} (name, override, reason, actor_type, actor_id, set_at)
VALUES (:queue, :override, :reason, :actor_type, :actor_id, :now)
ON CONFLICT (name) DO UPDATE
SET override = excluded.override, reason = excluded.reason, actor_type = excluded.actor_type,
    actor_id = excluded.actor_id, set_at = excluded.set_at
RETURNING name;
INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
VALUES (:now, :event, :actor_type, :actor_id, :detail)

-- name: count_running
-- By the index of running jobs, so that no further index is needed.
SELECT count(*) FROM (
    SELECT 1 FROM {live} INDEXED BY {prefix}live_held
    WHERE state = 'running' AND queue = :queue
    LIMIT :most
)

-- fragment: fair_org
org_id

-- fragment: fair_jobs
state = 'queued' AND fair = 1 AND queue = :queue

-- name: find_fair_jobs
-- each heads
-- packed
SELECT json_group_array(json_array(id, org_id, priority, run_at)) FROM (
    SELECT id, org_id, priority, run_at FROM {live} AS live
    WHERE {+fair_jobs} AND org_id IS :heads.org_id AND {+type_not_paused}
    ORDER BY priority, run_at, id
    LIMIT :heads.share
);
-- packed
{+unmarked_jobs}

-- name: find_aged_fair_jobs
-- The first jobs of every priority of each org: which of them runs first depends on how long each has waited. The
-- priorities that an org uses are found with one probe each.
-- each heads
-- packed
SELECT json_group_array(json_array(id, org_id, priority, run_at)) FROM (
    WITH RECURSIVE level (priority) AS (
        SELECT (
            SELECT priority FROM {live}
            WHERE {+fair_jobs} AND org_id IS :heads.org_id
            ORDER BY priority
            LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT live.priority FROM {live} AS live
            WHERE {+fair_jobs} AND org_id IS :heads.org_id AND live.priority > level.priority
            ORDER BY live.priority
            LIMIT 1
        )
        FROM level
        WHERE level.priority IS NOT NULL
    )
    SELECT head.* FROM level CROSS JOIN {live} AS head ON head.id IN (
        SELECT live.id FROM {live} AS live
        WHERE {+fair_jobs} AND org_id IS :heads.org_id AND live.priority = level.priority AND {+type_not_paused}
        ORDER BY live.run_at, live.id
        LIMIT :heads.share
    )
);
-- packed
{+unmarked_jobs}

-- name: find_aged_jobs
-- packed
SELECT json_group_array(json_array(id, org_id, priority, run_at)) FROM (
    WITH RECURSIVE level (priority) AS (
        {+ready_levels}
    )
    SELECT head.* FROM level CROSS JOIN {live} AS head ON head.id IN (
        SELECT live.id FROM {live} AS live
        WHERE queue = :queue AND state = 'queued' AND live.priority = level.priority AND {+type_not_paused}
            AND (org_id IS NULL OR org_id NOT IN (:orgs::texts))
        ORDER BY live.run_at, live.id
        LIMIT :share
    )
)

-- fragment: unmarked_jobs
-- Jobs of applications that do not know that the queue is fair, if they are among the next of the queue.
SELECT json_group_array(json_array(id, org_id, priority, run_at)) FROM (
    SELECT * FROM {live} WHERE queue = :queue AND state = 'queued' ORDER BY priority, run_at, id LIMIT :unmarked
) AS live
WHERE NOT live.fair AND {+type_not_paused}

-- fragment: type_not_paused
job_type NOT IN (:types::texts) AND (:only::text IS NULL OR job_type IN (:only::texts))

-- name: claim_picked_jobs
-- As claim_jobs, for the jobs that the queue's policy has picked.
-- when audited >= 2
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.started', id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id,
    attempt + 1, lease + 1, :worker, NULL
FROM {live}
WHERE id IN (SELECT value FROM json_each(:picked)) AND state = 'queued'
    AND EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now);
-- when audited >= 2
UPDATE {live}
SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker, started_at = :now
WHERE id IN (
    SELECT job_id FROM {audit}
    WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
);
-- when audited >= 2
-- packed
SELECT json_group_array(json_array({returned_columns}))
FROM (
    SELECT job_id FROM {audit}
    WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
) CROSS JOIN {live} ON id = job_id
WHERE NOT length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000
UNION ALL
SELECT json_array(json_array({returned_columns}))
FROM (
    SELECT job_id FROM {audit}
    WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
) CROSS JOIN {live} ON id = job_id
WHERE length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000
UNION ALL
SELECT json_array(json_array({job_nulls}))
WHERE NOT EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now);
-- when audited < 2
INSERT INTO {claimed} (job_id) SELECT id FROM {live}
WHERE id IN (SELECT value FROM json_each(:picked)) AND state = 'queued'
    AND EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now);
-- when audited < 2
UPDATE {live}
SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker, started_at = :now
WHERE id IN (SELECT job_id FROM {claimed});
-- when audited < 2
-- packed
SELECT json_group_array(json_array({returned_columns}))
FROM {claimed} CROSS JOIN {live} ON id = job_id
WHERE NOT length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000
UNION ALL
SELECT json_array(json_array({returned_columns}))
FROM {claimed} CROSS JOIN {live} ON id = job_id
WHERE length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000
UNION ALL
SELECT json_array(json_array({job_nulls}))
WHERE NOT EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now);
-- when audited < 2
DELETE FROM {claimed} WHERE job_id IS NOT NULL
