-- name: ready_queues
-- plan: steady
-- From queue to queue with one probe of the index each, however many jobs wait. ORDER BY with LIMIT, not min(): a
-- planner that knows of no such jobs yet reads them all for min().
SELECT queue, NULL, NULL FROM (
    WITH RECURSIVE ready AS (
        SELECT (SELECT queue FROM {live} WHERE state = 'queued' ORDER BY queue LIMIT 1) AS queue
        UNION ALL
        SELECT (
            SELECT live.queue FROM {live} AS live
            WHERE live.state = 'queued' AND live.queue > ready.queue
            ORDER BY live.queue
            LIMIT 1
        )
        FROM ready
        WHERE ready.queue IS NOT NULL
    )
    SELECT queue FROM ready WHERE queue IS NOT NULL
) AS found
UNION ALL
SELECT
    NULL, (SELECT {micros(run_at)} FROM {live} WHERE state = 'scheduled' ORDER BY run_at LIMIT 1),
    {micros(:now::clock)}

-- name: find_due
-- plan: steady
-- Every worker runs this each second: one probe of an index for each kind of work, mostly of an empty one. Ordered
-- as no other index is, else a planner that takes fresh rows for common reads the table.
SELECT
    {micros(:now::clock)},
    (SELECT {micros(run_at)} FROM {live} WHERE state = 'scheduled' ORDER BY run_at LIMIT 1),
    (SELECT {micros(next_at)} FROM {schedules} WHERE {+may_fire} ORDER BY next_at LIMIT 1),
    (SELECT 1 FROM {ended} WHERE flow > 0 AND ended_at <= {later(:now::clock, -:patience::int)} LIMIT 1),
    (SELECT 1 FROM {followers} WHERE NOT tied ORDER BY job_id, parent_id LIMIT 1),
    (SELECT 1 FROM {signals} WHERE fresh = 1 ORDER BY at LIMIT 1),
    (SELECT 1 FROM {awaited} WHERE fresh = 1 ORDER BY until LIMIT 1)

-- name: instructions
-- plan: steady
-- Every worker runs this twice a second, so only those of its jobs are returned that should be cancelled.
SELECT 'worker' AS scope, id AS name, NULL AS reason, NULL AS actor_type, NULL AS actor_id,
    CAST(NULL AS bigint) AS set_at
FROM {workers}
WHERE id = :worker::text AND lost_at IS NULL AND lease_until > :now::clock
UNION ALL
SELECT 'cancel', {text(live.id)}, (
    SELECT {text(audit.detail)} FROM {audit} AS audit
    WHERE audit.job_id = live.id AND audit.event = 'job.cancel_requested'
    ORDER BY audit.seq DESC
    LIMIT 1
), NULL, NULL, NULL
FROM {live} AS live
WHERE live.worker_id = :worker::text AND live.state = 'running' AND live.cancel_requested_at IS NOT NULL
UNION ALL
SELECT {+control_columns} FROM {controls}
UNION ALL
{+suspect_breakers}
UNION ALL
{+policy_queues}
UNION ALL
{+spent_budgets}
