-- name: enqueue_jobs
-- `rowid > last_insert_rowid() - :count` selects the jobs of this call: a new row has the number after the highest,
-- and no other connection writes meanwhile.
-- each jobs
INSERT INTO {live} ({+new_columns})
VALUES (
    :jobs.id, :jobs.org_id, :jobs.project_id, :jobs.job_type, :jobs.queue, :jobs.category,
    CASE
        WHEN :jobs.pending > 0 THEN 'blocked'
        WHEN coalesce(:jobs.run_at, :now + :jobs.delay, :now) > :now THEN 'scheduled'
        WHEN :jobs.limit_key IS NOT NULL THEN 'blocked'
        ELSE 'queued'
    END,
    :jobs.priority, coalesce(:jobs.run_at, :now + :jobs.delay, :now), :jobs.max_attempts, :jobs.key, :jobs.subject,
    :jobs.payload, :jobs.actor_type, :jobs.actor_id, :jobs.request_id, :jobs.correlation_id, :jobs.traceparent,
    :jobs.parent_id, :jobs.batch_id, :jobs.tags, :jobs.deadline, :jobs.timeout_micros, :now,
    coalesce(:jobs.ties, 0), coalesce(:jobs.pending, 0), :jobs.limit_key, coalesce(:jobs.fair, 0)
);
SELECT id, id, state, 1 FROM {live} AS live WHERE live.rowid > last_insert_rowid() - :count AND state <> 'queued';
INSERT INTO {audit} ({+audit_columns})
SELECT
    created_at, 'job.enqueued', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
    correlation_id, 0, 0, NULL, NULL
FROM {live} AS live WHERE live.rowid > last_insert_rowid() - :count AND :audited > 1

-- name: enqueue_keyed_jobs
-- All jobs are inserted, then the keys; a job whose key is held is deleted again. SQLite has one writer at a time, so
-- no other connection sees that, and the usual case costs no look-up: a held key does not count as a change.
-- The audit comes last, because its inserts change last_insert_rowid().
-- each jobs
INSERT INTO {live} ({+new_columns})
VALUES (
    :jobs.id, :jobs.org_id, :jobs.project_id, :jobs.job_type, :jobs.queue, :jobs.category,
    CASE
        WHEN :jobs.pending > 0 THEN 'blocked'
        WHEN coalesce(:jobs.run_at, :now + :jobs.delay, :now) > :now THEN 'scheduled'
        WHEN :jobs.limit_key IS NOT NULL THEN 'blocked'
        ELSE 'queued'
    END,
    :jobs.priority, coalesce(:jobs.run_at, :now + :jobs.delay, :now), :jobs.max_attempts, :jobs.key, :jobs.subject,
    :jobs.payload, :jobs.actor_type, :jobs.actor_id, :jobs.request_id, :jobs.correlation_id, :jobs.traceparent,
    :jobs.parent_id, :jobs.batch_id, :jobs.tags, :jobs.deadline, :jobs.timeout_micros, :now,
    coalesce(:jobs.ties, 0), coalesce(:jobs.pending, 0), :jobs.limit_key, coalesce(:jobs.fair, 0)
);
INSERT INTO {keys} (org_id, project_id, key, job_id, first_seen_at, last_seen_at, expires_at)
WITH own AS MATERIALIZED (SELECT key AS id, value AS lifetime FROM json_each(:lifetimes))
SELECT
    coalesce(org_id, ''), coalesce(project_id, ''), key, live.id, :now, :now,
    coalesce(:now + CASE WHEN own.id IS NULL THEN :lifetime ELSE own.lifetime END, 9223372036854775807)
FROM {live} AS live LEFT JOIN own ON own.id = live.id
WHERE live.rowid > last_insert_rowid() - :count AND key IS NOT NULL
ON CONFLICT (org_id, project_id, key) DO UPDATE
SET job_id = excluded.job_id, first_seen_at = :now, last_seen_at = :now, expires_at = excluded.expires_at,
    status = NULL, result_ref = NULL, error_ref = NULL
WHERE expires_at <= :now AND NOT EXISTS (SELECT 1 FROM {live} WHERE {live}.id = {keys}.job_id);
SELECT live.id, k.job_id, coalesce(holder.state, ended.state), 0
FROM {live} AS live JOIN {keys} AS k
    ON k.org_id = coalesce(live.org_id, '') AND k.project_id = coalesce(live.project_id, '') AND k.key = live.key
    AND k.job_id <> live.id
LEFT JOIN {live} AS holder ON holder.id = k.job_id
LEFT JOIN {ended} AS ended ON ended.id = k.job_id
WHERE live.rowid > last_insert_rowid() - CASE WHEN changes() < :keyed THEN :count ELSE 0 END AND live.key IS NOT NULL;
DELETE FROM {live} AS live
WHERE live.rowid > last_insert_rowid() - CASE WHEN changes() < :keyed THEN :count ELSE 0 END AND live.key IS NOT NULL
    AND EXISTS (
        SELECT 1 FROM {keys} AS k
        WHERE k.org_id = coalesce(live.org_id, '') AND k.project_id = coalesce(live.project_id, '') AND k.key = live.key
            AND k.job_id <> live.id
    );
UPDATE {keys} SET last_seen_at = max(last_seen_at, :now)
WHERE changes() > 0 AND first_seen_at < :now AND (org_id, project_id, key) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(:scoped_keys)
);
SELECT id, id, state, 1 FROM {live} AS live WHERE live.rowid > last_insert_rowid() - :count AND state <> 'queued';
INSERT INTO {audit} ({+audit_columns})
SELECT
    created_at, 'job.enqueued', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
    correlation_id, 0, 0, NULL, NULL
FROM {live} AS live WHERE live.rowid > last_insert_rowid() - :count AND :audited > 1
