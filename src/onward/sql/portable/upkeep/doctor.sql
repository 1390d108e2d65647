-- name: list_ready_queues
-- Bounded by index probes or a LIMIT, like every statement here, however many jobs there are.
-- From queue to queue with one probe each; the oldest job of a queue with two probes for each priority in use; counts
-- up to a cap. Ordered as an index is, else the planner reads the table in search of `cap` rows.
SELECT
    found.queue,
    (SELECT count(*) FROM (
        SELECT 1 FROM {live} AS one
        WHERE one.state = 'queued' AND one.queue = found.queue
        ORDER BY one.priority, one.run_at, one.id
        LIMIT :cap::int
    ) AS counted),
    {+oldest_ready}
FROM ({+found_queues}) AS found

-- fragment: oldest_ready
(SELECT {micros(min(first.run_at))} FROM (
    SELECT (
        SELECT one.run_at FROM {live} AS one
        WHERE one.state = 'queued' AND one.queue = found.queue AND one.priority = level.priority
        ORDER BY one.run_at
        LIMIT 1
    ) AS run_at
    FROM (
        WITH RECURSIVE level (priority) AS (
            SELECT (
                SELECT live.priority FROM {live} AS live
                WHERE live.state = 'queued' AND live.queue = found.queue
                ORDER BY live.priority
                LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT live.priority FROM {live} AS live
                WHERE live.state = 'queued' AND live.queue = found.queue AND live.priority > level.priority
                ORDER BY live.priority
                LIMIT 1
            )
            FROM level
            WHERE level.priority IS NOT NULL
        )
        SELECT priority FROM level
    ) AS level
) AS first)

-- fragment: found_queues
WITH RECURSIVE ready AS (
    SELECT (SELECT queue FROM {live} WHERE state = 'queued' ORDER BY queue LIMIT 1) AS queue, 1 AS place
    UNION ALL
    SELECT (
        SELECT live.queue FROM {live} AS live
        WHERE live.state = 'queued' AND live.queue > ready.queue
        ORDER BY live.queue
        LIMIT 1
    ), ready.place + 1
    FROM ready
    WHERE ready.queue IS NOT NULL AND ready.place < :limit::int
)
SELECT queue FROM ready WHERE queue IS NOT NULL

-- name: sample_ready
-- The jobs that a claim would take next.
SELECT job_type, category, count(*), {micros(min(run_at))}
FROM (
    SELECT job_type, category, run_at FROM {live}
    WHERE queue = :queue::text AND state = 'queued'
    ORDER BY priority, run_at, id
    LIMIT :limit::int
) AS next
GROUP BY job_type, category
ORDER BY 3 DESC, 1

-- name: sample_running
SELECT worker_id, queue, count(*)
FROM (
    SELECT worker_id, queue FROM {live} WHERE state = 'running' ORDER BY worker_id LIMIT :limit::int
) AS held
GROUP BY worker_id, queue

-- name: find_silent_holders
-- From holder to holder with one probe each. Some categories wait longer for a silent worker than its lease.
SELECT
    holder.id, {micros(worker.lease_until)}, {micros(worker.seen_at)},
    (SELECT count(*) FROM (
        SELECT 1 FROM {live} AS one
        WHERE one.state = 'running' AND one.worker_id = holder.id AND one.category NOT IN (:patient::texts)
        LIMIT :cap::int
    ) AS counted),
    (SELECT count(*) FROM (
        SELECT 1 FROM {live} AS one
        WHERE one.state = 'running' AND one.worker_id = holder.id AND one.category IN (:patient::texts)
        LIMIT :cap::int
    ) AS counted)
FROM (
    WITH RECURSIVE holders AS (
        SELECT (SELECT worker_id FROM {live} WHERE state = 'running' ORDER BY worker_id LIMIT 1) AS id, 1 AS place
        UNION ALL
        SELECT (
            SELECT live.worker_id FROM {live} AS live
            WHERE live.state = 'running' AND live.worker_id > holders.id
            ORDER BY live.worker_id
            LIMIT 1
        ), holders.place + 1
        FROM holders
        WHERE holders.id IS NOT NULL AND holders.place < :limit::int
    )
    SELECT id FROM holders WHERE id IS NOT NULL
) AS holder
LEFT JOIN {workers} AS worker ON worker.id = holder.id
WHERE worker.id IS NULL OR worker.lost_at IS NOT NULL OR worker.lease_until <= {instant(:now::int)}

-- name: count_overdue
SELECT count(*) FROM (
    SELECT 1 FROM {live}
    WHERE state = 'scheduled' AND run_at < {instant(:before::int)}
    ORDER BY run_at
    LIMIT :cap::int
) AS overdue

-- name: sample_failures
-- Among the jobs that are due next.
SELECT job_type, {+error_class}, count(*), min({text(id)})
FROM (
    SELECT id, job_type, error FROM {live} WHERE state = 'scheduled' ORDER BY run_at LIMIT :limit::int
) AS due
WHERE error IS NOT NULL
GROUP BY 1, 2
ORDER BY 3 DESC, 1

-- name: sample_dead
-- Among the newest deaths only.
SELECT
    job_type, {+error_class}, count(*), sum(CASE WHEN ended_at >= {instant(:hour::int)} THEN 1 ELSE 0 END),
    sum(CASE WHEN ended_at >= {instant(:before::int)} AND ended_at < {instant(:hour::int)} THEN 1 ELSE 0 END),
    {micros(max(ended_at))}
FROM (
    SELECT id, lease, job_type, error, ended_at FROM {ended}
    WHERE state = 'dead'
    ORDER BY ended_at DESC
    LIMIT :limit::int
) AS gone
WHERE {+unresolved}
GROUP BY 1, 2
ORDER BY 3 DESC, 1

-- name: sample_ended
SELECT state, count(*)
FROM (SELECT state FROM {ended} ORDER BY id DESC LIMIT :limit::int) AS newest
GROUP BY state

-- name: measure_slo
-- Of jobs that were enqueued in the last hour, by their last run.
SELECT count(*), coalesce(sum(CASE WHEN started_at > {later(run_at, :wait::int)} THEN 1 ELSE 0 END), 0)
FROM (
    SELECT category, run_at, started_at FROM {ended} WHERE id >= :since::id ORDER BY id DESC LIMIT :limit::int
) AS newest
WHERE category = :category::text AND started_at IS NOT NULL

-- name: count_late
-- With every priority in use listed, each is one range of the index that holds only jobs that have waited too long.
SELECT count(*)
FROM (
    SELECT category FROM {live}
    WHERE state = 'queued' AND queue = :queue::text AND priority {+in_ready_levels}
        AND run_at < {instant(:before::int)}
    LIMIT :cap::int
) AS late
WHERE category = :category::text

-- name: count_ahead
SELECT count(*) FROM (
    SELECT 1 FROM {live}
    WHERE state = 'queued' AND queue = :queue::text
        AND (priority, run_at, id) < (:priority::int, {instant(:run_at::int)}, :id::id)
    ORDER BY priority, run_at, id
    LIMIT :cap::int
) AS ahead

-- name: list_failing_sinks
SELECT sink, count(*), max(tries), max(error)
FROM (SELECT sink, tries, error FROM {alert_sends} WHERE error IS NOT NULL LIMIT :limit::int) AS failed
GROUP BY sink
ORDER BY sink
