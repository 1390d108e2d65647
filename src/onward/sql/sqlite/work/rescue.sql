-- name: find_lost_jobs
-- Marking the worker ends its right to extend, so no lease is revived while its job is being rescued. A running job
-- whose worker has no row at all is lost as well.
UPDATE {workers} SET lost_at = :now, idle_since = NULL WHERE lease_until <= :now AND lost_at IS NULL;
SELECT {job_columns live} FROM {live} AS live INDEXED BY {prefix}live_held
WHERE state = 'running' AND worker_id NOT IN (SELECT id FROM {workers} WHERE lease_until > :now)
    AND NOT EXISTS (
        -- A worker that retired is known to be gone, so no category waits for it.
        SELECT 1 FROM {workers} AS w CROSS JOIN json_each(:leases) AS patience
        WHERE w.id = live.worker_id AND w.lost_at <> w.lease_until
            AND patience.key = live.category AND w.seen_at + patience.value > :now
    )
ORDER BY id
LIMIT :limit

-- name: promote_jobs
UPDATE {live} SET state = CASE WHEN limit_key IS NULL THEN 'queued' ELSE 'blocked' END
WHERE id IN (
    SELECT id FROM {live} WHERE state = 'scheduled' AND run_at <= :now ORDER BY run_at LIMIT :limit
)
-- The whole row, without a test for null: SQLite 3.40 evaluates such a test wrongly here.
RETURNING queue, 1, limit_key;
SELECT NULL, min(run_at), NULL FROM {live} WHERE state = 'scheduled' AND run_at > :now
