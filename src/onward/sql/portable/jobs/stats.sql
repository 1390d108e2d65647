-- fragment: newest_ended
-- The newest by id: an index of the times of ends would cost every job that ends.
SELECT id, job_type, queue, org_id, project_id, state, run_at, started_at, ended_at FROM {ended}
ORDER BY id DESC
LIMIT :sample::int

-- name: count_ends
SELECT state, count(*), CAST(NULL AS bigint), NULL FROM ({+newest_ended}) AS newest
WHERE ended_at >= {later(:now::clock, -:window::int)} AND {+in_scope}
GROUP BY state
UNION ALL
SELECT 'retrying', count(*), NULL, NULL FROM (
    SELECT attempt, org_id, project_id FROM {live} WHERE state = 'scheduled' ORDER BY run_at LIMIT :live_cap::int
) AS scheduled
WHERE attempt > 0 AND {+in_scope}
UNION ALL
SELECT NULL, 0, {micros(:now::clock)}, (SELECT {text(id)} FROM {ended} ORDER BY {ended}.id DESC LIMIT 1 OFFSET :sample::int)

-- name: measure_runs
-- The place of a percentile is that of the nearest rank; SQLite has no function for it.
SELECT
    name, jobs, CAST(avg(run) AS bigint), max(CASE WHEN run_place = (jobs * 50 + 99) / 100 THEN run END),
    max(CASE WHEN run_place = (jobs * 95 + 99) / 100 THEN run END),
    max(CASE WHEN run_place = (jobs * 99 + 99) / 100 THEN run END),
    CAST(avg(wait) AS bigint), max(CASE WHEN wait_place = (jobs * 50 + 99) / 100 THEN wait END),
    max(CASE WHEN wait_place = (jobs * 95 + 99) / 100 THEN wait END),
    max(CASE WHEN wait_place = (jobs * 99 + 99) / 100 THEN wait END)
FROM (
    SELECT
        name, run, wait, count(*) OVER (PARTITION BY name) AS jobs,
        row_number() OVER (PARTITION BY name ORDER BY run) AS run_place,
        row_number() OVER (PARTITION BY name ORDER BY wait) AS wait_place
    FROM (
        SELECT
            CASE WHEN :by::text = 'queue' THEN queue ELSE job_type END AS name,
            {micros(ended_at)} - {micros(started_at)} AS run, {micros(started_at)} - {micros(run_at)} AS wait
        FROM ({+newest_ended}) AS newest
        WHERE started_at IS NOT NULL AND state <> 'cancelled' AND ended_at >= {instant(:since::int)} AND {+in_scope}
    ) AS measured
) AS placed
GROUP BY name, jobs
ORDER BY jobs DESC, name
LIMIT :limit::int

-- name: measure_lags
-- For a confined client, among the jobs of each queue that a claim would take first.
SELECT found.queue, CASE
    WHEN NOT {+is_confined} THEN {+oldest_ready}
    ELSE (SELECT {micros(min(run_at))} FROM (
        SELECT one.run_at, one.org_id, one.project_id FROM {live} AS one
        WHERE one.state = 'queued' AND one.queue = found.queue
        ORDER BY one.priority, one.run_at, one.id
        LIMIT :live_cap::int
    ) AS first WHERE {+in_scope})
END
FROM ({+found_queues}) AS found
UNION ALL
SELECT NULL, {micros(:now::clock)}

-- name: list_failures
-- Deaths, and the last runs of jobs that wait for their next one.
SELECT * FROM (
    SELECT
        {text(id)} AS id, job_type, queue, org_id, state, {micros(ended_at)} AS at, {text(error)} AS error, attempt,
        max_attempts, CAST(NULL AS bigint) AS next_at
    FROM (
        SELECT id, job_type, queue, org_id, project_id, state, ended_at, error, attempt, max_attempts FROM {ended}
        WHERE state = 'dead'
        ORDER BY ended_at DESC
        LIMIT :sample::int
    ) AS died
    WHERE {+in_scope}
    ORDER BY 6 DESC
    LIMIT :limit::int
) AS deaths
UNION ALL
SELECT * FROM (
    SELECT
        {text(live.id)} AS id, live.job_type, live.queue, live.org_id, live.state, {micros(past.ended_at)} AS at,
        {text(past.error)} AS error, past.attempt, live.max_attempts, {micros(live.run_at)} AS next_at
    FROM (
        SELECT job_id, attempt, ended_at, error FROM {attempts}
        WHERE error IS NOT NULL
        ORDER BY ended_at DESC
        LIMIT :sample::int
    ) AS past
    JOIN {live} AS live ON live.id = past.job_id AND live.attempt = past.attempt
    WHERE live.state IN ('scheduled', 'queued') AND {scope(live)}
    ORDER BY 6 DESC
    LIMIT :limit::int
) AS retrying
ORDER BY 6 DESC, 1
LIMIT :limit::int
