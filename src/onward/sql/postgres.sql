-- Statements where PostgreSQL has a better way, or the only one.
-- Each is one statement: one round trip, and one atomic change also outside a transaction.

-- fragment: clock
-- One reading of the clock for the whole statement; now() would be the start of the caller's transaction.
clock AS MATERIALIZED (SELECT :now::clock AS now)

-- fragment: asked
-- OFFSET 0 keeps one reading of the clock a row. Few nodes: setting up a plan costs more than one row does.
(
    SELECT *, coalesce({instant(run_at)}, {later(now, delay)}, now) AS due
    FROM (SELECT *, :now::clock AS now FROM :jobs::rows(
        id uuid, org_id text, project_id text, job_type text, queue text, category text, priority smallint,
        run_at bigint, delay bigint, max_attempts integer, key text, lifetime bigint, subject text, payload jsonb,
        actor_type text, actor_id text, request_id text, correlation_id text, traceparent text, parent_id uuid,
        batch_id uuid, tags jsonb, deadline bigint, timeout_micros bigint
    ) OFFSET 0) AS read
) AS asked

-- fragment: insert_asked
INSERT INTO {live} ({+new_columns})
SELECT
    id, org_id, project_id, job_type, queue, category, CASE WHEN due <= now THEN 'queued' ELSE 'scheduled' END,
    priority, due, max_attempts, key, subject, payload, actor_type, actor_id, request_id, correlation_id,
    traceparent, parent_id, batch_id, tags, {instant(deadline)}, timeout_micros, now

-- fragment: enqueued
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        created_at, 'job.enqueued', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
        correlation_id, 0, 0, NULL, NULL
    FROM job
)

-- fragment: not_simply_queued
-- Wakes on the way: pg_notify is never null, and many notifications of one queue are sent as one.
SELECT CAST(id AS text), CAST(id AS text), state, 1 FROM job
WHERE state <> 'queued' OR ({+someone_idles} AND pg_notify('{channel}', queue) IS NULL)

-- fragment: someone_idles
-- A notification for every insert would cut commits to a third, so only when a worker says that it idles; and
-- never into a queue that is filling up, where NOTIFY would fail the caller's commit.
EXISTS (
    SELECT FROM {workers}
    WHERE idle_since IS NOT NULL AND lease_until > clock_timestamp() AND pg_notification_queue_usage() < 0.5
)

-- name: enqueue_jobs
-- plan: once
-- Returns only what is not simply queued.
WITH job AS (
    {+insert_asked}
    FROM {+asked}
    RETURNING id, org_id, project_id, job_type, queue, state, actor_type, actor_id, request_id, correlation_id, created_at
),
{+enqueued}
{+not_simply_queued}

-- name: enqueue_keyed_jobs
-- plan: once
-- ON CONFLICT DO NOTHING waits for whoever is inserting the same key, and leaves alone a key that stands already, so
-- a caller's long transaction holds up nobody else. What it misses is settled by the function `hold_key`: a plan
-- that reads {keys} here would be kept from the day when the table was empty.
WITH asked AS MATERIALIZED (SELECT * FROM {+asked}),
taken AS (
    INSERT INTO {keys} (org_id, project_id, key, job_id, first_seen_at, last_seen_at, expires_at)
    SELECT coalesce(org_id, ''), coalesce(project_id, ''), key, id, now, now, {+expiry}
    FROM asked
    WHERE key IS NOT NULL
    ORDER BY coalesce(org_id, '') COLLATE "C", coalesce(project_id, '') COLLATE "C", key COLLATE "C"
    ON CONFLICT DO NOTHING
    RETURNING job_id
),
missed AS MATERIALIZED (
    SELECT id, coalesce(org_id, '') AS org_id, coalesce(project_id, '') AS project_id, key, lifetime, now
    FROM asked
    WHERE key IS NOT NULL AND id NOT IN (SELECT job_id FROM taken)
    ORDER BY 2, 3, 4
),
settled AS MATERIALIZED (
    SELECT missed.id, holder.job_id, holder.state
    FROM missed, LATERAL {prefix}hold_key(
        missed.org_id, missed.project_id, missed.key, missed.id, now, {+expiry}
    ) AS holder
),
job AS (
    {+insert_asked}
    FROM asked
    WHERE id NOT IN (SELECT id FROM settled WHERE job_id <> id)
    RETURNING id, org_id, project_id, job_type, queue, state, actor_type, actor_id, request_id, correlation_id, created_at
),
{+enqueued}
{+not_simply_queued}
UNION ALL
SELECT CAST(id AS text), CAST(job_id AS text), state, 0 FROM settled WHERE job_id <> id

-- fragment: expiry
-- No lifetime: for ever.
coalesce({later(now, lifetime)}, 'infinity')

-- name: extend_worker
WITH me AS (
    UPDATE {workers}
    SET seen_at = :now::clock, lease_until = {later(:now::clock, :lease::int)},
        idle_since = CASE WHEN :idle::int = 1 THEN coalesce(idle_since, :now::clock) END
    WHERE id = :worker::text AND lost_at IS NULL
    RETURNING id
)
SELECT CAST(live.id AS text), live.lease, CASE WHEN live.cancel_requested_at IS NULL THEN 0 ELSE 1 END
FROM me LEFT JOIN {live} AS live ON live.worker_id = me.id AND live.state = 'running'

-- name: claim_jobs
-- plan: steady
{+claim_ready}
{+claim_in_order}

-- name: claim_unpaused_jobs
-- plan: steady
-- Walks over what is paused, so only for when something is.
{+claim_ready}
        AND job_type NOT IN (:types::texts) AND (org_id IS NULL OR org_id NOT IN (:orgs::texts))
{+claim_in_order}

-- fragment: claim_ready
-- `ctid = ANY (ARRAY(…))` runs its LIMIT exactly once; `id IN (SELECT … LIMIT …)` may run it again for every row
-- and claim more than it was asked for. One row of nulls says that the worker has no right to claim.
WITH {+clock},
me AS MATERIALIZED (
    SELECT id FROM {workers}, clock WHERE id = :worker::text AND lost_at IS NULL AND lease_until > now
),
job AS (
    UPDATE {live}
    SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker::text,
        started_at = (SELECT now FROM clock)
    WHERE EXISTS (SELECT FROM me) AND ctid = ANY (ARRAY(
        SELECT ctid FROM {live}
        WHERE queue = :queue::text AND state = 'queued'

-- fragment: claim_in_order
        ORDER BY priority, run_at, id
        LIMIT :limit::int
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        started_at, 'job.started', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
        correlation_id, attempt, lease, worker_id, NULL
    FROM job
)
SELECT {job_columns job} FROM job
UNION ALL
SELECT {job_nulls} WHERE NOT EXISTS (SELECT FROM me)

-- name: finish_jobs
-- plan: steady
-- Joined on id and lease alone: with one more condition the planner has chosen to scan the table. By
-- `= ANY (ARRAY[…])`, which nothing but a probe of the index can serve: with `=`, a planner that takes the table for
-- empty reads the whole index and compares each row with each end. Whoever is in neither `gone` nor `back` had lost
-- its lease; it changes nothing but the audit. Only what did not go as asked is told: nearly always nothing.
WITH {+clock},
ending AS MATERIALIZED (
    SELECT * FROM :ended::rows(
        id uuid, lease bigint, event text, state text, attempt integer, waits integer, crashes integer, error jsonb,
        result jsonb, outcome text
    )
),
giving AS MATERIALIZED (
    SELECT * FROM :returned::rows(
        id uuid, lease bigint, event text, state text, attempt integer, waits integer, crashes integer, error jsonb,
        outcome text, delay bigint, ran integer
    )
),
gone AS (
    DELETE FROM {live} AS live USING ending WHERE live.id = ANY (ARRAY[ending.id]) AND live.lease = ending.lease
    RETURNING {carried live}, ending.event, ending.state AS to_state, ending.attempt AS to_attempt,
        ending.waits AS to_waits, ending.crashes AS to_crashes, coalesce(ending.error, live.error) AS to_error,
        ending.result, ending.outcome
),
moved AS (
    INSERT INTO {ended} ({carried}, {+end_columns})
    SELECT {carried gone}, to_state, to_attempt, to_waits, to_crashes, to_error, result, outcome, now FROM gone, clock
),
held AS MATERIALIZED (
    SELECT giving.*, live.cancel_requested_at
    FROM giving JOIN {live} AS live ON live.id = ANY (ARRAY[giving.id]) AND live.lease = giving.lease
    FOR UPDATE OF live
),
back AS (
    -- The lease grows when a job is given back, too: else its last holder could still finish it.
    UPDATE {live} AS live
    SET state = CASE WHEN held.delay > 0 THEN held.state ELSE 'queued' END, run_at = {later(now, held.delay)},
        attempt = held.attempt, lease = live.lease + 1, waits = held.waits, crashes = held.crashes,
        error = coalesce(held.error, live.error)
    FROM held, clock
    WHERE live.id = ANY (ARRAY[held.id]) AND held.cancel_requested_at IS NULL
    RETURNING live.*, held.event, held.outcome, held.ran, held.error AS run_error
),
past AS (
    INSERT INTO {attempts} (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error)
    SELECT id, lease - 1, ran, worker_id, started_at, now, outcome, run_error FROM back, clock
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        now, event, id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, to_attempt,
        lease, worker_id, CAST(NULL AS jsonb)
    FROM gone, clock
    UNION ALL
    SELECT
        now, event, id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, ran,
        lease - 1, worker_id, NULL
    FROM back, clock
),
refused AS (
    INSERT INTO {audit} (at, event, job_id, attempt, lease)
    SELECT now, 'job.stale_result_rejected', id, attempt, lease
    FROM (SELECT id, attempt, lease FROM ending UNION ALL SELECT id, ran, lease FROM giving) AS asked, clock
    WHERE id NOT IN (SELECT id FROM gone) AND id NOT IN (SELECT id FROM held)
    RETURNING job_id
),
woken AS MATERIALIZED (
    SELECT count(pg_notify('{channel}', queue)) AS sent
    FROM (SELECT DISTINCT queue FROM back WHERE state = 'queued') AS ready
    WHERE {+someone_idles}
)
SELECT CAST(job_id AS text), 'lost' FROM refused
UNION ALL
SELECT CAST(id AS text), 'cancelled' FROM held WHERE cancel_requested_at IS NOT NULL
UNION ALL
SELECT NULL, NULL FROM woken WHERE sent < 0

-- name: find_lost_jobs
-- plan: steady
-- Marking the worker takes its right to extend, so nobody revives a lease whose job is being given away. A running
-- job whose worker has no row at all is lost as well. From holder to holder, one probe of the index each: to look at
-- every running job took minutes among many dead rows, and kept them from being removed.
WITH RECURSIVE {+clock},
gone AS MATERIALIZED (
    SELECT w.id FROM {workers} AS w, clock WHERE w.lease_until <= now FOR UPDATE OF w SKIP LOCKED
),
marked AS (
    UPDATE {workers} AS w SET lost_at = now, idle_since = NULL FROM gone, clock WHERE w.id = gone.id AND w.lost_at IS NULL
),
holder AS (
    SELECT (SELECT worker_id FROM {live} WHERE state = 'running' ORDER BY worker_id LIMIT 1) AS id
    UNION ALL
    SELECT (
        SELECT live.worker_id FROM {live} AS live
        WHERE live.state = 'running' AND live.worker_id > holder.id
        ORDER BY live.worker_id
        LIMIT 1
    )
    FROM holder
    WHERE holder.id IS NOT NULL
),
dead AS MATERIALIZED (
    SELECT id FROM holder
    WHERE id IN (SELECT id FROM gone) OR id NOT IN (SELECT id FROM {workers})
)
SELECT {job_columns live}
FROM dead, LATERAL (
    SELECT * FROM {live} WHERE state = 'running' AND worker_id = dead.id LIMIT :limit::int
) AS live
LIMIT :limit::int

-- name: promote_jobs
-- plan: steady
WITH {+clock},
due AS (
    UPDATE {live} SET state = 'queued'
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {live}
        WHERE state = 'scheduled' AND run_at <= (SELECT now FROM clock)
        ORDER BY run_at
        LIMIT :limit::int
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING queue
),
woken AS MATERIALIZED (
    SELECT count(pg_notify('{channel}', queue)) AS sent FROM (SELECT DISTINCT queue FROM due) AS ready
    WHERE {+someone_idles}
)
SELECT queue, count(*) FROM due GROUP BY queue
UNION ALL
SELECT NULL, {micros(min(run_at))} FROM {live} WHERE state = 'scheduled' AND run_at > (SELECT now FROM clock)
UNION ALL
SELECT NULL, NULL FROM woken WHERE sent < 0

-- name: cancel_jobs
-- Locked first, so that what is decided here is decided about the newest version of each row.
WITH {+clock},
target AS MATERIALIZED (
    SELECT live.id, live.state FROM {live} AS live WHERE live.id IN (:ids::ids) ORDER BY live.id FOR UPDATE
),
gone AS (
    DELETE FROM {live} AS live USING target WHERE live.id = target.id AND target.state <> 'running' RETURNING live.*
),
moved AS (
    INSERT INTO {ended} ({carried}, {+end_columns})
    SELECT {carried gone}, 'cancelled', attempt, waits, crashes, :error::json, NULL, 'cancelled', now FROM gone, clock
),
asked AS (
    UPDATE {live} AS live SET cancel_requested_at = now
    FROM target, clock
    WHERE live.id = target.id AND target.state = 'running' AND live.cancel_requested_at IS NULL
    RETURNING live.*
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        now, event, id, job_type, org_id, project_id, :actor_type::text, :actor_id::text, request_id, correlation_id,
        attempt, lease, worker_id, :error::json
    FROM clock, (
        SELECT 'job.cancelled' AS event, * FROM gone UNION ALL SELECT 'job.cancel_requested' AS event, * FROM asked
    ) AS job
)
SELECT CAST(id AS text), CASE WHEN state = 'running' THEN 'running' ELSE 'cancelled' END FROM target

-- name: set_control
-- What holds already for this reason is left as it is, with who set it and since when.
WITH {+clock},
made AS (
    INSERT INTO {controls} AS control (scope, name, set_at, actor_type, actor_id, reason)
    SELECT :scope::text, :name::text, now, :actor_type::text, :actor_id::text, :reason::text FROM clock
    ON CONFLICT (scope, name) DO UPDATE
    SET actor_type = excluded.actor_type, actor_id = excluded.actor_id, reason = excluded.reason
    WHERE control.reason <> excluded.reason
    RETURNING scope
),
{+control_event}
SELECT scope FROM made

-- name: lift_control
WITH {+clock},
made AS (DELETE FROM {controls} WHERE scope = :scope::text AND name = :name::text RETURNING scope),
{+control_event}
SELECT scope FROM made

-- fragment: control_event
event AS (
    INSERT INTO {audit} (at, event, job_type, org_id, actor_type, actor_id, detail)
    SELECT
        now, :event::text, :job_type::text, :org_id::text, :actor_type::text, :actor_id::text, :detail::json
    FROM made, clock
)

-- name: lead
-- Asked before the insert, so that whoever does not lead writes and locks nothing, and who leads only at half time.
-- Of two that find the place free the second waits for the first, and then sees that it is taken.
WITH {+clock},
held AS MATERIALIZED (
    SELECT worker_id FROM {leaders}, clock
    WHERE name = :name::text
        AND until > CASE WHEN worker_id = :worker::text THEN {later(now, :ttl::int / 2)} ELSE now END
),
taken AS (
    INSERT INTO {leaders} AS leader (name, worker_id, until)
    SELECT :name::text, :worker::text, {later(now, :ttl::int)} FROM clock
    WHERE NOT EXISTS (SELECT FROM held)
    ON CONFLICT (name) DO UPDATE SET worker_id = excluded.worker_id, until = excluded.until
    WHERE leader.worker_id = excluded.worker_id OR leader.until <= (SELECT now FROM clock)
    RETURNING worker_id
)
SELECT worker_id FROM taken
UNION ALL
SELECT worker_id FROM held WHERE worker_id = :worker::text

-- name: tables_exist
SELECT 1 WHERE to_regclass(:table::text) IS NOT NULL
