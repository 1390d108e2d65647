-- name: find_lost_jobs
-- plan: steady
-- Marking the worker ends its right to extend, so no lease is revived while its job is being rescued. A running job
-- whose worker has no row at all is lost as well. From holder to holder with one probe of the index each: reading
-- every running job took minutes among many dead rows, and kept those from being removed.
WITH RECURSIVE {+clock},
gone AS MATERIALIZED (
    -- A worker that retired is known to be gone, so no category waits for it.
    SELECT w.id, CASE WHEN w.lost_at IS DISTINCT FROM w.lease_until THEN w.seen_at END AS silent_since
    FROM {workers} AS w, clock
    WHERE w.lease_until <= now
    FOR UPDATE OF w SKIP LOCKED
),
marked AS (
    UPDATE {workers} AS w SET lost_at = now, idle_since = NULL FROM gone, clock WHERE w.id = gone.id AND w.lost_at IS NULL
),
holder AS (
    SELECT (SELECT worker_id FROM {live} WHERE state = 'running' ORDER BY worker_id LIMIT 1) AS id
    UNION ALL
    SELECT (
        SELECT live.worker_id FROM {live} AS live
        WHERE live.state = 'running' AND live.worker_id > holder.id
        ORDER BY live.worker_id
        LIMIT 1
    )
    FROM holder
    WHERE holder.id IS NOT NULL
),
dead AS MATERIALIZED (
    SELECT holder.id, gone.silent_since FROM holder LEFT JOIN gone ON gone.id = holder.id
    WHERE gone.id IS NOT NULL OR holder.id NOT IN (SELECT id FROM {workers})
)
SELECT {job_columns live}
FROM clock, dead, LATERAL (
    SELECT * FROM {live} AS held
    WHERE state = 'running' AND worker_id = dead.id
        AND coalesce({later(dead.silent_since, CAST(:leases::json ->> held.category AS bigint))} <= clock.now, true)
    LIMIT :limit::int
    -- Jobs that a frozen worker has locked are rescued later: waiting for them would delay the rescue of all others.
    FOR UPDATE SKIP LOCKED
) AS live
LIMIT :limit::int

-- name: promote_jobs
-- plan: steady
WITH {+clock},
due AS (
    UPDATE {live} SET state = CASE WHEN limit_key IS NULL THEN 'queued' ELSE 'blocked' END
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {live}
        WHERE state = 'scheduled' AND run_at <= (SELECT now FROM clock)
        ORDER BY run_at
        LIMIT :limit::int
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING queue, limit_key
),
woken AS MATERIALIZED (
    SELECT count(pg_notify('{channel}', queue)) AS sent
    FROM (SELECT DISTINCT queue FROM due WHERE limit_key IS NULL) AS ready
    WHERE {+someone_idles}
)
SELECT queue, count(*), NULL FROM due WHERE limit_key IS NULL GROUP BY queue
UNION ALL
SELECT DISTINCT NULL, CAST(NULL AS bigint), limit_key FROM due WHERE limit_key IS NOT NULL
UNION ALL
SELECT NULL, {micros(min(run_at))}, NULL FROM {live} WHERE state = 'scheduled' AND run_at > (SELECT now FROM clock)
UNION ALL
SELECT NULL, NULL, NULL FROM woken WHERE sent < 0
