-- name: list_workers
-- A worker has a row for each run of its process; live workers come first.
SELECT id, {text(info)}, {micros(started_at)}, {micros(seen_at)}, {micros(lease_until)}, {micros(lost_at)}
FROM {workers}
WHERE (CASE WHEN lost_at IS NULL THEN 1 ELSE 0 END, seen_at, id)
    < (:is_live::int, {instant(:seen_at::int)}, :id::text)
ORDER BY CASE WHEN lost_at IS NULL THEN 1 ELSE 0 END DESC, seen_at DESC, id DESC
LIMIT :limit::int

-- name: get_worker
SELECT id, {text(info)}, {micros(started_at)}, {micros(seen_at)}, {micros(lease_until)}, {micros(lost_at)}
FROM {workers}
WHERE id = :worker::text
