-- fragment: batch_columns
{text(batch.id)}, batch.org_id, batch.name, {micros(batch.created_at)}, {micros(batch.closed_at)},
{micros(batch.cancelled_at)}, {micros(batch.ended_at)}, batch.actor_type, batch.actor_id, batch.correlation_id,
{text(batch.parent_id)}, {text(batch.callbacks)}, batch.succeeded, batch.dead, batch.cancelled

-- fragment: of_batch
-- A callback and the successor of a dead job have the batch's id, too, but are not counted in it.
batch_id IN (:ids::ids) AND (abs(flow) & 2) <> 0

-- name: insert_batch
INSERT INTO {batches} (id, org_id, project_id, name, created_at, closed_at, callbacks, actor_type, actor_id, correlation_id, parent_id)
SELECT
    :id::id, :org_id::text, :project_id::text, :name::text, :now::clock, CASE WHEN :closed::int = 1 THEN :now::clock END, :callbacks::json,
    :actor_type::text, :actor_id::text, :correlation_id::text, :parent_id::id
WHERE {+given_in_scope}
RETURNING {text(id)}

-- name: end_batches
-- Returns only batches that had not ended yet, so that their callbacks are enqueued once.
UPDATE {batches} SET ended_at = :now::clock
WHERE id IN (:ids::ids) AND ended_at IS NULL AND {+in_scope}
RETURNING {text(id)}, succeeded, dead, cancelled, {text(callbacks)}

-- name: mark_batch_cancelled
UPDATE {batches} SET cancelled_at = coalesce(cancelled_at, :now::clock)
WHERE id = :id::id AND {+in_scope}
RETURNING org_id

-- name: get_batches
-- One statement, so that a job that ends meanwhile is counted once: as live, as not yet counted, or as counted.
SELECT {+batch_columns}, part.state, part.ties, part.jobs
FROM {batches} AS batch LEFT JOIN (
    SELECT batch_id, state, flow & 112 AS ties, count(*) AS jobs FROM {live}
    WHERE {+of_batch} GROUP BY 1, 2, 3
    UNION ALL
    SELECT batch_id, state, flow & 112 AS ties, count(*) AS jobs FROM {ended}
    WHERE {+of_batch} AND flow > 0 GROUP BY 1, 2, 3
) AS part ON part.batch_id = batch.id
WHERE batch.id IN (:ids::ids) AND {+in_scope}

-- name: list_batches
SELECT {text(id)} FROM {batches}
WHERE (:name::text IS NULL OR name = :name::text)
    AND (:ended::int IS NULL OR (:ended::int = 1) = (ended_at IS NOT NULL))
    AND (:below::text IS NULL OR id < :below::id) AND {+in_scope}
ORDER BY {batches}.id DESC
LIMIT :limit::int

-- name: list_batch_jobs
SELECT * FROM (
    SELECT {job_columns live} FROM {live} AS live
    WHERE {+of_batch} AND (:below::text IS NULL OR id < :below::id) AND {+in_scope}
    ORDER BY live.id DESC
    LIMIT :limit::int
) AS waiting_or_running
UNION ALL
SELECT * FROM (
    SELECT {job_columns ended} FROM {ended} AS ended
    WHERE {+of_batch} AND (:below::text IS NULL OR id < :below::id) AND {+in_scope}
    ORDER BY ended.id DESC
    LIMIT :limit::int
) AS finished
ORDER BY 1 DESC
LIMIT :limit::int

-- name: find_batch_members
SELECT {text(id)}, {text(batch_id)} FROM {live} WHERE id IN (:ids::ids) AND (flow & 2) <> 0 AND {+in_scope}
