-- fragment: reports
:reports::rows(id uuid, lease bigint, progress jsonb)

-- name: store_progress
-- plan: steady
-- A handler's own transaction may hold the row of its job: waiting for it would hold up the reports of all others. The
-- second column is 1 for jobs that were left out because their row is locked. There is no `state = 'running'`: only a
-- running job has the lease of its run, and with that condition a plan made for an empty table scans all running jobs.
WITH {+clock},
reported AS MATERIALIZED (SELECT * FROM {+reports}),
held AS MATERIALIZED (
    SELECT live.id, reported.progress
    FROM reported
    JOIN {live} AS live ON live.id = ANY (ARRAY[reported.id]) AND live.lease = ANY (ARRAY[reported.lease])
    WHERE {scope(live)}
    FOR UPDATE OF live SKIP LOCKED
),
stored AS (
    UPDATE {live} AS live
    SET progress = held.progress || jsonb_build_object('at', {micros(now)})
    FROM held, clock
    WHERE live.id = ANY (ARRAY[held.id])
    RETURNING live.id
)
SELECT CAST(id AS text), 0 FROM stored
UNION ALL
SELECT CAST(live.id AS text), 1
FROM reported JOIN {live} AS live ON live.id = ANY (ARRAY[reported.id]) AND live.lease = ANY (ARRAY[reported.lease])
WHERE live.id NOT IN (SELECT id FROM stored) AND {scope(live)}

-- name: store_last_progress
-- plan: steady
-- Waits for a locked row, because the end of the job is written next and has to wait for it anyway.
WITH {+clock}
UPDATE {live} AS live
SET progress = reports.progress || jsonb_build_object('at', {micros(now)})
FROM {+reports}, clock
WHERE live.id = ANY (ARRAY[reports.id]) AND live.lease = ANY (ARRAY[reports.lease])
RETURNING CAST(live.id AS text)
