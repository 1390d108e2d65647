-- name: list_workers
-- A worker has a row for each run of its process; live workers come first.
SELECT id, org_id, project_id, {text(info)}, {micros(started_at)}, {micros(seen_at)}, {micros(lease_until)}, {micros(lost_at)}
FROM {workers}
WHERE (CASE WHEN lost_at IS NULL THEN 1 ELSE 0 END, seen_at, id)
    < (:is_live::int, {instant(:seen_at::int)}, :id::text)
ORDER BY CASE WHEN lost_at IS NULL THEN 1 ELSE 0 END DESC, seen_at DESC, id DESC
LIMIT :limit::int

-- name: get_worker
SELECT id, org_id, project_id, {text(info)}, {micros(started_at)}, {micros(seen_at)}, {micros(lease_until)}, {micros(lost_at)}
FROM {workers}
WHERE id = :worker::text

-- name: list_earlier_workers
-- The live workers that registered before this one. A worker of one org declares nothing for an application.
SELECT
    w.id, w.org_id, w.project_id, {text(w.info)}, {micros(w.started_at)}, {micros(w.seen_at)}, {micros(w.lease_until)}, {micros(w.lost_at)}
FROM {workers} AS w JOIN {workers} AS own ON own.id = :worker::text
WHERE w.lost_at IS NULL AND w.lease_until > :now::clock AND w.org_id IS NULL AND w.project_id IS NULL
    AND (w.started_at, w.id) < (own.started_at, own.id)
ORDER BY w.started_at, w.id
