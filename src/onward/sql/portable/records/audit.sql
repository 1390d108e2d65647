-- fragment: audit_columns
at, event, job_id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, attempt, lease,
worker_id, detail

-- name: list_audit
SELECT {micros(at)}, event, attempt, lease, worker_id, actor_type, actor_id, {text(detail)}, action, seq
FROM {audit}
WHERE job_id = :id::id AND seq > :after::int AND {+in_scope}
ORDER BY seq
LIMIT :limit::int

-- fragment: record_columns
audit.seq, {micros(audit.at)}, audit.event, audit.action, {text(audit.job_id)}, audit.job_type, audit.org_id,
audit.project_id, audit.actor_type, audit.actor_id, audit.request_id, audit.correlation_id, audit.attempt,
audit.lease, audit.worker_id, {text(audit.detail)}

-- name: read_audit
-- Reads a range of numbers, which PostgreSQL finds by a BRIN index; the caller widens a range that is too narrow.
SELECT {+record_columns} FROM {audit} AS audit
WHERE seq > :above::int AND seq <= :upto::int
    AND (:event::text IS NULL OR event = :event::text)
    AND (:action::text IS NULL OR action = :action::text)
    AND (:job_id::text IS NULL OR job_id = :job_id::id)
    AND (:org_id::text IS NULL OR org_id = :org_id::text)
    AND (:by_type::text IS NULL OR actor_type = :by_type::text)
    AND (:by_id::text IS NULL OR actor_id = :by_id::text)
    AND (:since::int IS NULL OR at >= {instant(:since::int)})
    AND (:until::int IS NULL OR at < {instant(:until::int)})
    AND {+in_scope}
ORDER BY seq * :direction::int
LIMIT :limit::int

-- name: find_links
SELECT min(seq), max(seq), max(position)
FROM (SELECT seq, position FROM {chain} WHERE position > :above::int AND position <= :upto::int ORDER BY position LIMIT :limit::int) AS page

-- name: read_links
-- Links and their rows in one statement, so that no prune comes in between.
SELECT sealed.position, sealed.seq, sealed.digest, sealed.link, sealed.pruned, {+record_columns}
FROM {chain} AS sealed
    LEFT JOIN {audit} AS audit ON audit.seq = sealed.seq AND audit.seq >= :first::int AND audit.seq <= :last::int
WHERE sealed.position > :above::int AND sealed.position <= :upto::int
ORDER BY sealed.position

-- name: find_unsealed
SELECT {+record_columns} FROM {audit} AS audit
WHERE audit.seq > :above::int AND audit.seq <= :upto::int
    AND NOT EXISTS (SELECT 1 FROM {chain} AS sealed WHERE sealed.seq = audit.seq)
ORDER BY audit.seq
LIMIT :limit::int

-- name: find_prunable
-- Leaves out the lines of live jobs. Lines of no job, or of a removed job, fall under the default category.
SELECT sealed.position, {+record_columns}
FROM {audit} AS audit
    LEFT JOIN {ended} AS job ON job.id = audit.job_id
    LEFT JOIN {chain} AS sealed ON sealed.seq = audit.seq
WHERE audit.at < {instant(:before::int)} AND audit.event <> 'audit.pruned'
    AND CASE WHEN job.category IN (:known::texts) THEN job.category ELSE 'default' END IN (:categories::texts)
    AND (:chained::int = 0 OR sealed.position IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM {live} AS live WHERE live.id = audit.job_id)
ORDER BY audit.seq
LIMIT :limit::int
