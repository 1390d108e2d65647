-- Statements where SQLite needs its own form.
-- A name may be several statements, run in one transaction; `-- each NAME` runs one over the rows of a set, `-- all
-- NAME` runs it once if the set has rows, which it reads as `:NAME::rows AS NAME`, and the rows that they return are
-- put together. `-- packed` returns rows as JSON: each row that Python fetches is a release of its global lock, which
-- a busy process takes milliseconds to get back. The first one writes, so that a caller's transaction takes the
-- write lock at once instead of failing to raise a read lock to it.
-- Python's sqlite3 opens a transaction by itself only before INSERT, UPDATE, DELETE or REPLACE: never start with WITH.

-- fragment: insert_new
INSERT INTO {live} ({+new_columns})
VALUES (
    :jobs.id, :jobs.org_id, :jobs.project_id, :jobs.job_type, :jobs.queue, :jobs.category,
    CASE WHEN coalesce(:jobs.run_at, :now + :jobs.delay, :now) <= :now THEN 'queued' ELSE 'scheduled' END,
    :jobs.priority, coalesce(:jobs.run_at, :now + :jobs.delay, :now), :jobs.max_attempts, :jobs.key, :jobs.subject,
    :jobs.payload, :jobs.actor_type, :jobs.actor_id, :jobs.request_id, :jobs.correlation_id, :jobs.traceparent,
    :jobs.parent_id, :jobs.batch_id, :jobs.tags, :jobs.deadline, :jobs.timeout_micros, :now
)

-- fragment: just_inserted
-- The jobs of this call: a new row's number is one more than the highest, and nobody else writes meanwhile.
live.rowid > last_insert_rowid() - :count

-- fragment: enqueued
INSERT INTO {audit} ({+audit_columns})
SELECT
    created_at, 'job.enqueued', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
    correlation_id, 0, 0, NULL, NULL
FROM {live} AS live WHERE {+just_inserted}

-- fragment: timed
SELECT id, id, state, 1 FROM {live} AS live WHERE {+just_inserted} AND state <> 'queued'

-- name: enqueue_jobs
-- each jobs
{+insert_new};
{+timed};
{+enqueued}

-- name: enqueue_keyed_jobs
-- All jobs go in, then the keys; whoever finds its key taken is taken out again. There is one writer at a time, so
-- nobody sees that, and the usual case costs no look-up: a key that is not free does not count as a change.
-- The audit comes last, because with it the number of the last inserted row is another.
-- each jobs
{+insert_new};
INSERT INTO {keys} (org_id, project_id, key, job_id, first_seen_at, last_seen_at, expires_at)
WITH own AS MATERIALIZED (SELECT key AS id, value AS lifetime FROM json_each(:lifetimes))
SELECT
    coalesce(org_id, ''), coalesce(project_id, ''), key, live.id, :now, :now,
    coalesce(:now + CASE WHEN own.id IS NULL THEN :lifetime ELSE own.lifetime END, 9223372036854775807)
FROM {live} AS live LEFT JOIN own ON own.id = live.id
WHERE {+just_inserted} AND key IS NOT NULL
ON CONFLICT (org_id, project_id, key) DO UPDATE
SET job_id = excluded.job_id, first_seen_at = :now, last_seen_at = :now, expires_at = excluded.expires_at
WHERE expires_at <= :now AND NOT EXISTS (SELECT 1 FROM {live} WHERE {live}.id = {keys}.job_id);
SELECT live.id, k.job_id, coalesce(holder.state, ended.state), 0
FROM {live} AS live JOIN {keys} AS k ON {+key_taken}
LEFT JOIN {live} AS holder ON holder.id = k.job_id
LEFT JOIN {ended} AS ended ON ended.id = k.job_id
WHERE {+some_missed};
DELETE FROM {live} AS live WHERE {+some_missed} AND EXISTS (SELECT 1 FROM {keys} AS k WHERE {+key_taken});
{+timed};
{+enqueued}

-- fragment: some_missed
live.rowid > last_insert_rowid() - CASE WHEN changes() < :keyed THEN :count ELSE 0 END AND live.key IS NOT NULL

-- fragment: key_taken
k.org_id = coalesce(live.org_id, '') AND k.project_id = coalesce(live.project_id, '') AND k.key = live.key
AND k.job_id <> live.id

-- name: extend_worker
UPDATE {workers}
SET seen_at = :now, lease_until = :now + :lease, idle_since = CASE WHEN :idle = 1 THEN coalesce(idle_since, :now) END
WHERE id = :worker AND lost_at IS NULL;
SELECT live.id, live.lease, live.cancel_requested_at IS NOT NULL
FROM {workers} AS me LEFT JOIN {live} AS live ON live.worker_id = me.id AND live.state = 'running'
WHERE me.id = :worker AND me.lost_at IS NULL

-- fragment: ready_jobs
WHERE queue = :queue AND state = 'queued' AND {+worker_lives}
ORDER BY priority, run_at, id
LIMIT :limit

-- fragment: worker_lives
EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now)

-- fragment: unpaused_jobs
WHERE queue = :queue AND state = 'queued' AND job_type NOT IN (:types::texts)
    AND (org_id IS NULL OR org_id NOT IN (:orgs::texts)) AND {+worker_lives}
ORDER BY priority, run_at, id
LIMIT :limit

-- name: claim_jobs
-- One row of nulls says that the worker has no right to claim.
{+log_start} {+ready_jobs};
{+start};
-- packed
{+started}

-- name: claim_unpaused_jobs
-- Walks over what is paused, so only for when something is.
{+log_start} {+unpaused_jobs};
{+start};
-- packed
{+started}

-- fragment: log_start
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.started', id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id,
    attempt + 1, lease + 1, :worker, NULL
FROM {live}

-- fragment: start
UPDATE {live}
SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker, started_at = :now
WHERE id IN (SELECT job_id FROM {audit} WHERE seq > {+before_these})

-- fragment: started
-- Large ones each by itself, because SQLite makes no value of more than a gigabyte.
SELECT json_group_array(json_array({returned_columns})) FROM {+just_started} WHERE NOT {+is_large}
UNION ALL
SELECT json_array(json_array({returned_columns})) FROM {+just_started} WHERE {+is_large}
UNION ALL
SELECT json_array(json_array({job_nulls})) WHERE NOT {+worker_lives}

-- fragment: just_started
(SELECT job_id FROM {audit} WHERE seq > {+before_these}) CROSS JOIN {live} ON id = job_id

-- fragment: is_large
length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000

-- fragment: before_these
-- The number before those rows that the last INSERT made. An UPDATE or DELETE of as many rows since changes nothing
-- about it; an INSERT of none left the number of another table.
CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END

-- name: finish_jobs
-- The audit comes first and tells whose lease was lost; only what did not go as asked is told.
-- all ended
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, CASE WHEN live.id IS NULL THEN 'job.stale_result_rejected' ELSE :ended.event END, :ended.id, {+audited},
    :ended.attempt, :ended.lease, live.worker_id, NULL
FROM :ended::rows AS ended LEFT JOIN {live} AS live ON {+ended_of};
-- all ended
-- packed
SELECT json_group_array(json_array(job_id, 'lost')) FROM {audit} WHERE {+just_refused};
-- all ended
INSERT INTO {ended} ({carried}, {+end_columns})
SELECT
    {carried live}, :ended.state, :ended.attempt, :ended.waits, :ended.crashes, coalesce(:ended.error, live.error),
    :ended.result, :ended.outcome, :now
FROM :ended::rows AS ended CROSS JOIN {live} AS live ON {+ended_of};
-- all ended
DELETE FROM {live} WHERE id IN (SELECT id FROM {ended} WHERE rowid > {+before_these});
-- all returned
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, CASE WHEN live.id IS NULL THEN 'job.stale_result_rejected' ELSE :returned.event END, :returned.id,
    {+audited}, :returned.ran, :returned.lease, live.worker_id, NULL
FROM :returned::rows AS returned LEFT JOIN {live} AS live ON {+returned_of}
WHERE live.cancel_requested_at IS NULL;
-- all returned
-- packed
SELECT json_group_array(json_array(job_id, 'lost')) FROM {audit} WHERE {+just_refused}
UNION ALL
SELECT json_group_array(json_array(live.id, 'cancelled'))
FROM :returned::rows AS returned CROSS JOIN {live} AS live ON {+returned_of}
WHERE live.cancel_requested_at IS NOT NULL;
-- all returned
INSERT INTO {attempts} (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT
    live.id, live.lease, :returned.ran, live.worker_id, live.started_at, :now, :returned.outcome, :returned.error
FROM :returned::rows AS returned CROSS JOIN {live} AS live ON {+returned_of}
WHERE live.cancel_requested_at IS NULL;
-- The lease grows when a job is given back, too: else its last holder could still finish it.
-- all returned
UPDATE {live} AS live
SET state = CASE WHEN :returned.delay > 0 THEN :returned.state ELSE 'queued' END, run_at = :now + :returned.delay,
    attempt = :returned.attempt, lease = live.lease + 1, waits = :returned.waits, crashes = :returned.crashes,
    error = coalesce(:returned.error, live.error)
FROM :returned::rows AS returned WHERE {+returned_of} AND live.cancel_requested_at IS NULL

-- fragment: ended_of
live.id = :ended.id AND live.lease = :ended.lease

-- fragment: returned_of
live.id = :returned.id AND live.lease = :returned.lease

-- fragment: audited
live.job_type, live.org_id, live.project_id, live.actor_type, live.actor_id, live.request_id, live.correlation_id

-- fragment: just_refused
-- Not a job whose other end, under its newest lease, is written by the same statement.
seq > {+before_these} AND event = 'job.stale_result_rejected' AND job_id NOT IN (
    SELECT job_id FROM {audit} WHERE seq > {+before_these} AND event <> 'job.stale_result_rejected'
)

-- name: find_lost_jobs
-- Marking the worker takes its right to extend, so nobody revives a lease whose job is being given away. A running
-- job whose worker has no row at all is lost as well.
UPDATE {workers} SET lost_at = :now, idle_since = NULL WHERE lease_until <= :now AND lost_at IS NULL;
SELECT {job_columns live} FROM {live} AS live INDEXED BY {prefix}live_held
WHERE state = 'running' AND worker_id NOT IN (SELECT id FROM {workers} WHERE lease_until > :now)
ORDER BY id
LIMIT :limit

-- name: promote_jobs
UPDATE {live} SET state = 'queued'
WHERE id IN (
    SELECT id FROM {live} WHERE state = 'scheduled' AND run_at <= :now ORDER BY run_at LIMIT :limit
)
RETURNING queue, 1;
SELECT NULL, min(run_at) FROM {live} WHERE state = 'scheduled' AND run_at > :now

-- name: cancel_jobs
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, CASE WHEN state = 'running' THEN 'job.cancel_requested' ELSE 'job.cancelled' END, id, job_type, org_id,
    project_id, :actor_type, :actor_id, request_id, correlation_id, attempt, lease, worker_id, :error
FROM {live} WHERE id IN (:ids::ids) AND cancel_requested_at IS NULL;
UPDATE {live} SET cancel_requested_at = coalesce(cancel_requested_at, :now)
WHERE id IN (:ids::ids) AND state = 'running'
RETURNING id, 'running';
INSERT INTO {ended} ({carried}, {+end_columns})
SELECT {carried}, 'cancelled', attempt, waits, crashes, :error, NULL, 'cancelled', :now
FROM {live} WHERE id IN (:ids::ids) AND state <> 'running'
RETURNING id, 'cancelled';
DELETE FROM {live} WHERE id IN (:ids::ids) AND state <> 'running'

-- name: set_control
-- What holds already for this reason is left as it is, with who set it and since when.
{+control_event}
WHERE NOT EXISTS (SELECT 1 FROM {controls} WHERE scope = :scope AND name = :name AND reason = :reason);
INSERT INTO {controls} (scope, name, set_at, actor_type, actor_id, reason)
VALUES (:scope, :name, :now, :actor_type, :actor_id, :reason)
ON CONFLICT (scope, name) DO UPDATE
SET actor_type = excluded.actor_type, actor_id = excluded.actor_id, reason = excluded.reason
WHERE reason <> excluded.reason
RETURNING scope

-- name: lift_control
{+control_event}
WHERE EXISTS (SELECT 1 FROM {controls} WHERE scope = :scope AND name = :name);
DELETE FROM {controls} WHERE scope = :scope AND name = :name
RETURNING scope

-- fragment: control_event
INSERT INTO {audit} (at, event, job_type, org_id, actor_type, actor_id, detail)
SELECT :now, :event, :job_type, :org_id, :actor_type, :actor_id, :detail

-- name: lead
-- Whoever does not lead writes nothing, and who leads only at half time.
INSERT INTO {leaders} (name, worker_id, until)
SELECT :name, :worker, :now + :ttl
WHERE NOT EXISTS (
    SELECT 1 FROM {leaders}
    WHERE name = :name AND until > CASE WHEN worker_id = :worker THEN :now + :ttl / 2 ELSE :now END
)
ON CONFLICT (name) DO UPDATE SET worker_id = excluded.worker_id, until = excluded.until;
SELECT worker_id FROM {leaders} WHERE name = :name AND worker_id = :worker AND until > :now

-- name: tables_exist
SELECT 1 FROM sqlite_master WHERE name = :table
