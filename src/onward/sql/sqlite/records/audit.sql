-- name: last_audit
SELECT coalesce(max(seq), 0) FROM {audit}

-- name: note_audit
INSERT INTO {audit} ({+audit_columns}, action)
SELECT
    :now, 'job.noted', id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, attempt,
    lease, worker_id, :detail, :action
FROM {live} WHERE id = :id AND lease = :lease AND state = 'running' AND {+in_scope}
RETURNING seq;
INSERT INTO {audit} (
    at, event, job_id, attempt, lease, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id
)
SELECT
    :now, 'job.stale_result_rejected', id, :attempt, :lease, job_type, org_id, project_id, actor_type, actor_id,
    request_id, correlation_id
FROM (SELECT * FROM {live} WHERE id = :id AND lease <> :lease)
WHERE {+in_scope};
INSERT INTO {audit} (
    at, event, job_id, attempt, lease, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id
)
SELECT
    :now, 'job.stale_result_rejected', id, :attempt, :lease, job_type, org_id, project_id, actor_type, actor_id,
    request_id, correlation_id
FROM {ended} WHERE id = :id AND {+in_scope}

-- name: lock_sealing
-- SQLite has one writer at a time, so every row with a number is visible.
SELECT floor, position, link, NULL, NULL, NULL, :now, NULL, NULL FROM {sealing}

-- name: seal_audit
-- each links
INSERT INTO {chain} (position, seq, digest, link)
VALUES (:links.position, :links.seq, :links.digest, :links.link)
ON CONFLICT DO NOTHING
RETURNING position

-- name: move_head
UPDATE {sealing} SET floor = :floor, position = :position, link = :link
RETURNING id

-- name: start_pruning
UPDATE {sealing} SET pruning = 1
RETURNING id

-- name: end_pruning
UPDATE {sealing} SET pruning = 0
RETURNING id

-- name: log_pruned
INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
VALUES (:now, 'audit.pruned', :actor_type, :actor_id, :detail)
RETURNING seq

-- name: prune_audit
-- each gone
DELETE FROM {audit} WHERE seq = :gone.seq
RETURNING seq;
-- each gone
UPDATE {chain} SET pruned = :event WHERE seq = :gone.seq
