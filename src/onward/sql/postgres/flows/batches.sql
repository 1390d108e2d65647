-- name: join_batches
-- A lock that blocks only closing and ending the batch: it can't end before this transaction does.
SELECT CAST(id AS text), org_id, {micros(closed_at)}, {micros(cancelled_at)}, {micros(ended_at)}
FROM {batches} WHERE id IN (:ids::ids) AND {+in_scope}
ORDER BY {batches}.id
FOR KEY SHARE

-- name: count_batches
-- Locked in one order, by a lock that need not wait for writers that add jobs.
WITH tally AS MATERIALIZED (
    SELECT * FROM :tallies::rows(id uuid, succeeded integer, dead integer, cancelled integer)
),
target AS MATERIALIZED (
    SELECT batch.id FROM {batches} AS batch WHERE batch.id IN (SELECT tally.id FROM tally)
    ORDER BY batch.id
    FOR NO KEY UPDATE
)
UPDATE {batches} AS batch
SET succeeded = batch.succeeded + tally.succeeded, dead = batch.dead + tally.dead,
    cancelled = batch.cancelled + tally.cancelled
FROM tally JOIN target ON target.id = tally.id
WHERE batch.id = tally.id
RETURNING CAST(batch.id AS text)

-- name: lock_batches
-- Waits for writers that are adding a job now; the next statement looks whether they did.
SELECT CAST(id AS text) FROM {batches} WHERE id IN (:ids::ids) AND {+in_scope}
ORDER BY {batches}.id
FOR UPDATE

-- name: close_batch
-- Locked for update, to wait for writers that are adding a job now.
WITH target AS MATERIALIZED (SELECT id FROM {batches} WHERE id = :id::id AND {+in_scope} FOR UPDATE)
UPDATE {batches} AS batch SET closed_at = coalesce(closed_at, :now::clock) FROM target
WHERE batch.id = target.id
RETURNING CAST(batch.id AS text)

-- name: find_idle_batches
-- By `= ANY (ARRAY[…])`, which only a probe of the index can serve. Of the live jobs the last is read, in an order that
-- only the index has: those before it have nearly all been claimed, and while a long transaction keeps their dead
-- entries, each look would read all of them.
SELECT CAST(batch.id AS text) FROM {batches} AS batch
WHERE batch.id IN (:ids::ids) AND batch.closed_at IS NOT NULL AND batch.ended_at IS NULL AND {+in_scope}
    AND NOT EXISTS (
        SELECT FROM (
            SELECT live.batch_id FROM {live} AS live
            WHERE live.batch_id IS NOT NULL AND (live.flow & 2) <> 0
                AND (live.batch_id, live.id) <= (batch.id, CAST('ffffffff-ffff-ffff-ffff-ffffffffffff' AS uuid))
            ORDER BY live.batch_id DESC, live.id DESC
            LIMIT 1
        ) AS latest
        WHERE latest.batch_id = batch.id
    )
    AND NOT EXISTS (
        SELECT FROM {ended} AS gone
        WHERE gone.batch_id = ANY (ARRAY[batch.id]) AND gone.flow > 0 AND (gone.flow & 2) <> 0
    )
