-- name: join_batches
-- Changes nothing, but makes a caller's transaction the writer. RETURNING must not test for null: SQLite 3.40
-- evaluates such a test wrongly here.
UPDATE {batches} SET org_id = org_id WHERE id IN (:ids::ids) AND {+in_scope}
RETURNING id, org_id, closed_at, cancelled_at, ended_at

-- name: count_batches
-- each tallies
UPDATE {batches}
SET succeeded = succeeded + :tallies.succeeded, dead = dead + :tallies.dead, cancelled = cancelled + :tallies.cancelled
WHERE id = :tallies.id
RETURNING id

-- name: lock_batches
UPDATE {batches} SET org_id = org_id WHERE id IN (:ids::ids) AND {+in_scope}
RETURNING id

-- name: close_batch
UPDATE {batches} SET closed_at = coalesce(closed_at, :now) WHERE id = :id AND {+in_scope}
RETURNING id

-- name: find_idle_batches
SELECT batch.id FROM {batches} AS batch
WHERE batch.id IN (:ids::ids) AND batch.closed_at IS NOT NULL AND batch.ended_at IS NULL AND {+in_scope}
    AND NOT EXISTS (SELECT 1 FROM {live} AS live WHERE live.batch_id = batch.id AND (live.flow & 2) <> 0)
    AND NOT EXISTS (
        SELECT 1 FROM {ended} AS gone WHERE gone.batch_id = batch.id AND gone.flow > 0 AND (gone.flow & 2) <> 0
    )
