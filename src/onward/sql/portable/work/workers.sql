-- name: list_workers
-- A worker has a row for each run of its process; live workers come first.
SELECT id, {text(info)}, {micros(started_at)}, {micros(seen_at)}, {micros(lease_until)}, {micros(lost_at)}
FROM {workers}
ORDER BY CASE WHEN lost_at IS NULL THEN 0 ELSE 1 END, seen_at DESC
LIMIT :limit::int

-- name: get_worker
SELECT id, {text(info)}, {micros(started_at)}, {micros(seen_at)}, {micros(lease_until)}, {micros(lost_at)}
FROM {workers}
WHERE id = :worker::text
