-- fragment: group_of
-- Written exactly as in the index. Deaths whose error has no fingerprint are one group.
coalesce(CASE WHEN json_valid(error) THEN json_extract(error, '$.fingerprint') END, 'unknown')

-- fragment: class_of
CASE WHEN json_valid(error) THEN json_extract(error, '$.error_class') END

-- fragment: waiting_of_kind
FROM {ended} AS gone
WHERE gone.state = 'dead' AND {+group_of} = kind.fingerprint AND {+in_scope} AND {+unresolved}
    AND (:org_id IS NULL OR org_id = :org_id)
ORDER BY gone.id DESC

-- name: list_dead_groups
-- The index leads from one fingerprint to the next, however many jobs died of each, and to the newest job of each.
-- Only the groups of the page are counted, up to a cap.
SELECT kind.fingerprint, kind.id, kind.job_type, kind.error, (
    SELECT json_array(count(*), min(died.ended_at), max(died.ended_at), count(DISTINCT died.org_id))
    FROM (SELECT gone.ended_at, gone.org_id {+waiting_of_kind} LIMIT :cap) AS died
)
FROM (
    WITH RECURSIVE kind AS (
        SELECT (
            SELECT {+group_of} FROM {ended} AS gone
            WHERE gone.state = 'dead' AND {+group_of} >= :low AND {+group_of} < :high
            ORDER BY {+group_of} LIMIT 1
        ) AS fingerprint
        UNION ALL
        SELECT (
            SELECT {+group_of} FROM {ended} AS gone
            WHERE gone.state = 'dead' AND {+group_of} > kind.fingerprint AND {+group_of} < :high
            ORDER BY {+group_of} LIMIT 1
        )
        FROM kind WHERE kind.fingerprint IS NOT NULL
    ),
    newest AS MATERIALIZED (
        SELECT kind.fingerprint, (SELECT gone.id {+waiting_of_kind} LIMIT 1) AS id
        FROM kind WHERE kind.fingerprint IS NOT NULL
    )
    SELECT newest.fingerprint, ended.id, ended.job_type, ended.error FROM newest {+page_of_groups}
) AS kind
ORDER BY kind.id DESC

-- fragment: replayable
-- The job has no key, or holds its key again. Of several jobs with one key the newest holds it.
{+asked_and_unresolved} AND (gone.key IS NULL OR EXISTS (SELECT 1 FROM {keys} AS k WHERE {+own_key}))

-- name: replay_dead_letters
-- A key that its job no longer holds is taken over, as by an enqueue.
INSERT INTO {keys} (org_id, project_id, key, job_id, first_seen_at, last_seen_at, expires_at)
SELECT coalesce(org_id, ''), coalesce(project_id, ''), key, id, :now, :now, :now
FROM {ended} AS gone
WHERE {+asked_and_unresolved} AND key IS NOT NULL
ORDER BY id
ON CONFLICT (org_id, project_id, key) DO UPDATE
SET job_id = excluded.job_id, first_seen_at = :now, last_seen_at = :now, expires_at = :now, status = NULL,
    result_ref = NULL, error_ref = NULL
WHERE job_id <> excluded.job_id AND expires_at <= :now
    AND NOT EXISTS (SELECT 1 FROM {live} WHERE {live}.id = {keys}.job_id);
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.replayed', id, job_type, org_id, project_id, :actor_type, :actor_id, request_id, correlation_id,
    CASE WHEN :reset = 1 THEN 0 ELSE attempt END, lease + 1, NULL, :detail
FROM {ended} AS gone WHERE {+replayable};
INSERT INTO {attempts} (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error, cost_micros)
SELECT gone.id, lease, attempt, worker_id, started_at, ended_at, outcome, error, {+run_cost}
FROM {ended} AS gone WHERE {+replayable} AND {+ended_running};
-- The lease is raised: else the worker that ended the job could end it once more.
INSERT INTO {live} ({+reset_columns}, attempt, waits, crashes)
SELECT
    id, org_id, project_id, job_type, queue, category,
    CASE WHEN wait > 0 THEN 'scheduled' WHEN limit_key IS NULL THEN 'queued' ELSE 'blocked' END, priority, :now + wait, max_attempts, lease + 1, key, subject, payload, cost_micros, actor_type, actor_id, request_id,
    correlation_id, traceparent, parent_id, batch_id, tags, CASE WHEN deadline > :now + wait THEN deadline END,
    timeout_micros, created_at, abs(flow), limit_key, fair, CASE WHEN :reset = 1 THEN 0 ELSE attempt END, CASE WHEN :reset = 1 THEN 0 ELSE waits END,
    CASE WHEN :reset = 1 THEN 0 ELSE crashes END
FROM (
    SELECT gone.*, :delay + (row_number() OVER (ORDER BY gone.id) - 1) * :every AS wait
    FROM {ended} AS gone WHERE {+replayable}
) AS spaced;
INSERT INTO {dead_letters} ({+resolution_columns})
SELECT gone.id, lease, org_id, 'replayed', :now, :actor_type, :actor_id, :reason
FROM {ended} AS gone WHERE {+replayable}
RETURNING job_id;
DELETE FROM {ended} WHERE id IN (:ids::ids) AND id IN (SELECT id FROM {live}) AND {+in_scope}

-- name: discard_dead_letters
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.discarded', id, job_type, org_id, project_id, :actor_type, :actor_id, request_id, correlation_id,
    attempt, lease, NULL, :detail
FROM {ended} AS gone WHERE {+asked_and_unresolved};
INSERT INTO {dead_letters} ({+resolution_columns})
SELECT gone.id, lease, org_id, 'discarded', :now, :actor_type, :actor_id, :reason
FROM {ended} AS gone WHERE {+asked_and_unresolved}
RETURNING job_id

-- fragment: fixed_limit
(SELECT dead.limit_key FROM {ended} AS dead WHERE dead.id = :id)

-- fragment: just_fixed
EXISTS (SELECT 1 FROM {dead_letters} WHERE successor_id = :successor AND {+job_in_scope})

-- name: fix_dead_letter
INSERT INTO {dead_letters} ({+resolution_columns}, successor_id, diff)
SELECT gone.id, lease, org_id, 'fixed', :now, :actor_type, :actor_id, :reason, :successor, :diff
FROM {ended} AS gone WHERE gone.id = :id AND lease = :lease AND state = 'dead' AND {+in_scope} AND {+unresolved};
-- all jobs
INSERT INTO {live} ({+new_columns})
SELECT
    :jobs.id, :jobs.org_id, :jobs.project_id, :jobs.job_type, :jobs.queue, :jobs.category,
    CASE WHEN {+fixed_limit} IS NULL THEN 'queued' ELSE 'blocked' END, :jobs.priority, :now, :jobs.max_attempts, (
        SELECT gone.key FROM {ended} AS gone JOIN {keys} AS k ON {+own_key} WHERE gone.id = :id
    ), :jobs.subject, :jobs.payload, :jobs.actor_type, :jobs.actor_id, :jobs.request_id, :jobs.correlation_id,
    :jobs.traceparent, :jobs.parent_id, :jobs.batch_id, :jobs.tags,
    CASE WHEN :jobs.deadline > :now THEN :jobs.deadline END, :jobs.timeout_micros, :now,
    0, 0, {+fixed_limit}, coalesce(:jobs.fair, 0)
FROM :jobs::rows AS jobs
WHERE {+just_fixed};
UPDATE {keys}
SET job_id = :successor, last_seen_at = :now, status = NULL, result_ref = NULL, error_ref = NULL
WHERE job_id = :id AND (org_id, project_id, key) IN (
    SELECT coalesce(org_id, ''), coalesce(project_id, ''), key FROM {ended} WHERE id = :id
) AND {+just_fixed};
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.fixed', id, job_type, org_id, project_id, :actor_type, :actor_id, request_id, correlation_id, attempt,
    lease, NULL, :detail
FROM {ended} WHERE id = :id AND {+just_fixed};
INSERT INTO {audit} ({+audit_columns})
SELECT
    created_at, 'job.enqueued', id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, 0, 0,
    NULL, NULL
FROM {live} WHERE id = :successor AND :audited > 1 AND {+in_scope};
SELECT {+letter_columns} FROM {dead_letters} AS letter WHERE letter.successor_id = :successor AND {+job_in_scope}
