-- fragment: due
coalesce(:changes.run_at, :now + :changes.delay, :now)

-- fragment: change_of
CASE WHEN state = 'running' THEN 'rerun_requested' ELSE :changes.kind END

-- fragment: may_change_live
-- A job of another type keeps its own payload, whatever its key.
instr(:changes.states, live.state) > 0 AND live.job_type = :changes.job_type

-- fragment: may_change_ended
instr(:changes.states, gone.state) > 0 AND gone.job_type = :changes.job_type

-- fragment: held_changed
:changes::rows AS changes CROSS JOIN {live} AS live
ON live.id = :changes.id AND {+may_change_live} AND {+in_scope}

-- fragment: ended_changed
:changes::rows AS changes CROSS JOIN {ended} AS gone
ON gone.id = :changes.id AND {+may_change_ended} AND {+in_scope}

-- name: change_held_jobs
-- all changes
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.' || {+change_of}, live.id, job_type, org_id, project_id, :changes.actor_type, :changes.actor_id,
    :changes.request_id, :changes.correlation_id, CASE :changes.kind WHEN 'reset' THEN CASE state WHEN 'running' THEN attempt ELSE 0 END ELSE attempt END,
    lease, worker_id, NULL
FROM {+held_changed}
WHERE :audited > 1
UNION ALL
SELECT
    :now, 'job.reset', gone.id, job_type, org_id, project_id, :changes.actor_type, :changes.actor_id,
    :changes.request_id, :changes.correlation_id, 0, lease + 1, NULL, NULL
FROM {+ended_changed}
WHERE :audited > 1;
-- all changes
SELECT live.id, CASE
    WHEN state = 'running' THEN state
    ELSE {+changed_state}
END, {+change_of}
FROM {+held_changed}
UNION ALL
SELECT gone.id, {+reset_state}, 'reset' FROM {+ended_changed}
UNION ALL
SELECT live.id, live.state, NULL
FROM :changes::rows AS changes CROSS JOIN {live} AS live
ON live.id = :changes.id AND NOT ({+may_change_live}) AND {+in_scope}
UNION ALL
SELECT :changes.id, gone.state, NULL
FROM :changes::rows AS changes LEFT JOIN {ended} AS gone ON gone.id = :changes.id
WHERE :changes.id NOT IN (SELECT id FROM {live}) AND coalesce(NOT ({+may_change_ended}), 1);
-- all changes
INSERT OR REPLACE INTO {reruns} (
    job_id, payload, priority, max_attempts, run_at, deadline, timeout_micros, actor_type, actor_id, request_id,
    correlation_id, traceparent, limit_key
)
SELECT
    live.id, :changes.payload, :changes.priority, :changes.max_attempts, {+due}, :changes.deadline,
    :changes.timeout_micros, :changes.actor_type, :changes.actor_id, :changes.request_id, :changes.correlation_id,
    :changes.traceparent, :changes.limit_key
FROM {+held_changed}
WHERE state = 'running';
-- all changes
UPDATE {keys} AS k
SET last_seen_at = :now, expires_at = CASE
    WHEN EXISTS (SELECT 1 FROM {jobs} AS job WHERE job.id = :changes.id AND instr(:changes.states, job.state) > 0 AND job.job_type = :changes.job_type)
    THEN coalesce(:now + :changes.lifetime, 9223372036854775807)
    ELSE expires_at
END
FROM :changes::rows AS changes
WHERE k.org_id = coalesce(:changes.org_id, '') AND k.project_id = coalesce(:changes.project_id, '')
    AND k.key = :changes.key AND {scope(k)};
-- all changes
UPDATE {live} AS live
SET rerun_requested = CASE WHEN state = 'running' THEN 1 ELSE 0 END,
    payload = CASE WHEN state = 'running' THEN payload ELSE :changes.payload END,
    priority = CASE WHEN {+keeps_time} THEN priority ELSE :changes.priority END,
    run_at = CASE WHEN {+keeps_time} THEN run_at ELSE {+due} END,
    deadline = CASE WHEN {+keeps_time} THEN deadline ELSE :changes.deadline END,
    state = CASE WHEN state = 'running' THEN state ELSE {+changed_state} END,
    limit_key = CASE WHEN state = 'running' THEN limit_key ELSE :changes.limit_key END,
    actor_type = CASE WHEN state = 'running' THEN actor_type ELSE :changes.actor_type END,
    actor_id = CASE WHEN state = 'running' THEN actor_id ELSE :changes.actor_id END,
    request_id = CASE WHEN state = 'running' THEN request_id ELSE :changes.request_id END,
    correlation_id = CASE WHEN state = 'running' THEN correlation_id ELSE :changes.correlation_id END,
    traceparent = CASE WHEN state = 'running' THEN traceparent ELSE :changes.traceparent END,
    attempt = CASE WHEN {+starts_again} THEN 0 ELSE attempt END,
    waits = CASE WHEN {+starts_again} THEN 0 ELSE waits END,
    crashes = CASE WHEN {+starts_again} THEN 0 ELSE crashes END,
    error = CASE WHEN {+starts_again} THEN NULL ELSE error END,
    max_attempts = CASE WHEN {+starts_again} THEN :changes.max_attempts ELSE max_attempts END,
    timeout_micros = CASE WHEN {+starts_again} THEN :changes.timeout_micros ELSE timeout_micros END
FROM :changes::rows AS changes
WHERE live.id = :changes.id AND {+may_change_live} AND {+in_scope};
-- all changes
INSERT INTO {attempts} (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error, cost_micros)
SELECT gone.id, lease, attempt, worker_id, started_at, ended_at, outcome, error, {+run_cost}
FROM {+ended_changed}
WHERE {+ended_running};
-- The lease is raised: else the worker that ended the job could end it once more.
-- all changes
INSERT INTO {live} ({+reset_columns})
SELECT
    gone.id, org_id, project_id, job_type, queue, category, {+reset_state}, :changes.priority, {+due}, :changes.max_attempts, lease + 1, gone.key, subject, :changes.payload, cost_micros,
    :changes.actor_type, :changes.actor_id, :changes.request_id, :changes.correlation_id, :changes.traceparent,
    parent_id, batch_id, tags, :changes.deadline,
    :changes.timeout_micros, created_at, abs(flow), :changes.limit_key, fair
FROM {+ended_changed};
-- all changes
DELETE FROM {ended}
WHERE id IN (SELECT :changes.id FROM :changes::rows AS changes) AND id IN (SELECT id FROM {live}) AND {+in_scope}

-- fragment: reset_state
CASE WHEN {+due} > :now THEN 'scheduled' WHEN :changes.limit_key IS NULL THEN 'queued' ELSE 'blocked' END

-- fragment: changed_state
-- A ready job holds a permit, but of no other limit.
CASE
    WHEN pending > 0 THEN 'blocked'
    WHEN CASE WHEN :changes.kind = 'coalesced' THEN state = 'scheduled' ELSE {+due} > :now END THEN 'scheduled'
    WHEN :changes.limit_key IS NULL OR (state = 'queued' AND :changes.limit_key = limit_key) THEN 'queued'
    ELSE 'blocked'
END

-- fragment: keeps_time
(state = 'running' OR :changes.kind = 'coalesced')

-- fragment: starts_again
(state <> 'running' AND :changes.kind = 'reset')

-- fragment: ended_running
-- A job that was cancelled while it waited to run again has its last run in the history already.
started_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM {attempts} AS earlier WHERE earlier.job_id = gone.id AND earlier.lease = gone.lease - 1
)

-- name: forget_key
INSERT INTO {audit} (at, event, job_id, org_id, project_id, actor_type, actor_id, detail)
SELECT
    :now, 'key.forgotten', job_id, nullif(org_id, ''), nullif(project_id, ''), :actor_type, :actor_id, :detail
FROM {keys} WHERE {+the_key};
DELETE FROM {keys} WHERE {+the_key}
RETURNING job_id

-- fragment: the_key
org_id = coalesce(nullif(:org_id, ''), :only_org, '') AND project_id = :project_id AND key = :key
AND {+in_scope}

-- name: lock_held_job
SELECT job_id FROM {keys} WHERE {+the_key} AND job_id = :id

-- name: rerun_jobs
-- Their runs have ended in this transaction: each run goes to the history, and the job starts again.
-- all runs
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.reset', job.id, job_type, org_id, project_id, rerun.actor_type, rerun.actor_id, rerun.request_id,
    rerun.correlation_id, 0, CASE WHEN ended_at IS NULL THEN lease ELSE lease + 1 END, NULL, NULL
FROM :runs::rows AS runs CROSS JOIN {reruns} AS rerun ON rerun.job_id = :runs.id JOIN {jobs} AS job ON job.id = rerun.job_id
WHERE :audited > 1;
-- all runs
INSERT INTO {attempts} (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error, cost_micros)
SELECT gone.id, lease, attempt, worker_id, started_at, ended_at, outcome, :runs.error, :runs.cost
FROM :runs::rows AS runs CROSS JOIN {ended} AS gone ON gone.id = :runs.id;
-- all runs
UPDATE {live} AS live
SET state = CASE
        WHEN rerun.run_at > :now THEN 'scheduled'
        -- A ready job keeps its permit, unless its limit changes.
        WHEN rerun.limit_key IS NULL OR (state = 'queued' AND rerun.limit_key = live.limit_key) THEN 'queued'
        ELSE 'blocked'
    END, run_at = rerun.run_at, limit_key = rerun.limit_key,
    payload = rerun.payload, priority = rerun.priority, max_attempts = rerun.max_attempts, deadline = rerun.deadline,
    actor_type = rerun.actor_type, actor_id = rerun.actor_id, request_id = rerun.request_id,
    correlation_id = rerun.correlation_id, traceparent = rerun.traceparent,
    timeout_micros = rerun.timeout_micros, attempt = 0, waits = 0, crashes = 0, error = NULL, progress = NULL,
    cancel_requested_at = NULL, rerun_requested = 0
FROM :runs::rows AS runs, {reruns} AS rerun
WHERE live.id = :runs.id AND live.rerun_requested = 1 AND state <> 'running' AND rerun.job_id = live.id;
-- The lease is raised: else the worker that ended the job could end it once more.
-- all runs
INSERT INTO {live} ({+reset_columns})
SELECT
    gone.id, org_id, project_id, job_type, queue, category,
    CASE WHEN rerun.run_at > :now THEN 'scheduled' WHEN rerun.limit_key IS NULL THEN 'queued' ELSE 'blocked' END,
    rerun.priority,
    rerun.run_at, rerun.max_attempts,
    lease + 1, gone.key, subject, rerun.payload, cost_micros, rerun.actor_type, rerun.actor_id, rerun.request_id,
    rerun.correlation_id, rerun.traceparent, parent_id, batch_id, tags, rerun.deadline, rerun.timeout_micros, created_at,
    abs(flow), rerun.limit_key, fair
FROM :runs::rows AS runs CROSS JOIN {ended} AS gone ON gone.id = :runs.id JOIN {reruns} AS rerun ON rerun.job_id = gone.id;
-- all runs
DELETE FROM {ended} WHERE id IN (SELECT :runs.id FROM :runs::rows AS runs);
-- all runs
DELETE FROM {reruns} WHERE job_id IN (SELECT :runs.id FROM :runs::rows AS runs)
RETURNING job_id

-- name: lock_lapsed_keys
SELECT org_id, project_id, key FROM {keys} WHERE {+lapsed}

-- name: prune_keys
-- all lapsed
DELETE FROM {keys}
WHERE (org_id, project_id, key) IN (
    SELECT :lapsed.org_id, :lapsed.project_id, :lapsed.key FROM :lapsed::rows AS lapsed
) AND NOT EXISTS (SELECT 1 FROM {live} AS live WHERE live.id = {keys}.job_id)
RETURNING key
