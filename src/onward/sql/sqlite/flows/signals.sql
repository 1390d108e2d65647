-- name: store_signal
INSERT INTO {signals} (id, org_id, project_id, event, key, payload, at, expires_at, actor_type, actor_id)
SELECT :id, :org_id, :project_id, :event, :key, :payload, :now, :now + :keep, :actor_type, :actor_id
WHERE {+given_in_scope}
RETURNING id;
INSERT INTO {audit} (at, event, org_id, project_id, actor_type, actor_id, detail)
SELECT at, 'signal.sent', nullif(org_id, ''), nullif(project_id, ''), actor_type, actor_id, :detail
FROM {signals} WHERE id = :id AND :audited > 1 AND {+in_scope}

-- name: park_jobs
-- In one transaction with the finish of their runs, which schedules them under the next lease.
-- all parked
UPDATE {live} AS live SET run_at = :parked.until
FROM :parked::rows AS parked
WHERE live.id = :parked.id AND live.lease = :parked.lease AND live.state = 'scheduled';
-- all parked
INSERT OR REPLACE INTO {awaited} (job_id, lease, org_id, project_id, event, key, until, seen)
SELECT
    live.id, live.lease, coalesce(live.org_id, ''), coalesce(live.project_id, ''), :parked.event, coalesce(:parked.key, ''), live.run_at, :parked.seen
FROM :parked::rows AS parked CROSS JOIN {live} AS live ON live.id = :parked.id AND live.lease = :parked.lease
WHERE :parked.event IS NOT NULL AND live.state = 'scheduled'
RETURNING job_id

-- name: wake_waiting
-- Reads what is fresh, or one signal, and makes the jobs due whose signal has arrived.
UPDATE {live} SET run_at = :now
WHERE state = 'scheduled' AND id IN (SELECT waits.job_id FROM {+met_signal} WHERE {+still_waits}
    UNION SELECT waits.job_id FROM {+met_job} WHERE {+still_waits})
RETURNING 1;
DELETE FROM {awaited} WHERE job_id IN (SELECT waits.job_id FROM {+met_signal} UNION SELECT waits.job_id FROM {+met_job});
UPDATE {signals} SET fresh = 0
WHERE fresh = 1 AND (:signal IS NULL OR id = :signal) AND {+in_scope};
UPDATE {awaited} SET fresh = 0 WHERE fresh = 1 AND :signal IS NULL AND {+in_scope}

-- fragment: met_signal
{signals} AS sent CROSS JOIN {awaited} AS waits
ON sent.fresh = 1 AND (:signal IS NULL OR sent.id = :signal) AND {scope(sent)}
AND waits.org_id = sent.org_id AND waits.event = sent.event AND waits.key = sent.key
AND sent.project_id IN ('', waits.project_id)
AND sent.id NOT IN (SELECT value FROM json_each(waits.seen))

-- fragment: met_job
{awaited} AS waits CROSS JOIN {signals} AS kept
ON waits.fresh = 1 AND :signal IS NULL AND {scope(waits)}
AND kept.org_id = waits.org_id AND kept.event = waits.event AND kept.key = waits.key AND kept.expires_at > :now
AND kept.project_id IN ('', waits.project_id)
AND kept.id NOT IN (SELECT value FROM json_each(waits.seen))

-- name: prune_signals
DELETE FROM {signals} WHERE id IN (
    SELECT id FROM {signals} WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit
)
RETURNING id

-- name: prune_awaited
DELETE FROM {awaited} WHERE job_id IN (
    SELECT waits.job_id FROM {awaited} AS waits WHERE {+ended_wait} LIMIT :limit
)
RETURNING job_id
