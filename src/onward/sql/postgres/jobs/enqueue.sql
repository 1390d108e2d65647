-- fragment: clock
-- The clock is read once for the whole statement; now() would be the start of the caller's transaction.
clock AS MATERIALIZED (SELECT :now::clock AS now)

-- fragment: asked
-- OFFSET 0 keeps one reading of the clock per row. Few nodes, because setting up a plan costs more than one row does.
(
    SELECT *, coalesce({instant(run_at)}, {later(now, delay)}, now) AS due
    FROM (SELECT *, :now::clock AS now FROM :jobs::rows(
        id uuid, org_id text, project_id text, job_type text, queue text, category text, priority smallint,
        run_at bigint, delay bigint, max_attempts integer, key text, lifetime bigint, subject text, payload jsonb,
        actor_type text, actor_id text, request_id text, correlation_id text, traceparent text, parent_id uuid,
        batch_id uuid, tags jsonb, deadline bigint, timeout_micros bigint, limit_key text, ties smallint,
        pending integer, fair smallint
    ) OFFSET 0) AS read
) AS asked

-- fragment: enqueued
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        created_at, 'job.enqueued', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
        correlation_id, 0, 0, NULL, NULL
    FROM job
    WHERE :audited::int > 1
)

-- fragment: someone_idles
-- Only if a worker reports that it idles: a notification for every insert would cut commits to a third. Never into a
-- notification queue that is filling up, where NOTIFY would fail the caller's commit.
EXISTS (
    SELECT FROM {workers}
    WHERE idle_since IS NOT NULL AND lease_until > clock_timestamp() AND pg_notification_queue_usage() < 0.5
)

-- name: enqueue_jobs
-- plan: once
-- Returns only jobs that are not simply queued. OFFSET 0 keeps one reading of the clock per row. Few nodes, because
-- setting up a plan costs more than one row does. Also wakes idle workers: pg_notify is never null, many notifications
-- of one queue are sent as one, and a worker that hears of a limit checks whether the job may become ready.
WITH job AS (
    INSERT INTO {live} ({+new_columns})
    SELECT
        id, org_id, project_id, job_type, queue, category, CASE
            WHEN pending > 0 THEN 'blocked'
            WHEN due > now THEN 'scheduled'
            WHEN limit_key IS NOT NULL THEN 'blocked'
            ELSE 'queued'
        END, priority, due, max_attempts, key, subject, payload, actor_type, actor_id, request_id, correlation_id,
        traceparent, parent_id, batch_id, tags, {instant(deadline)}, timeout_micros, now,
        coalesce(ties, 0), coalesce(pending, 0), limit_key, coalesce(fair, 0) = 1
    FROM (
        SELECT *, coalesce({instant(run_at)}, {later(now, delay)}, now) AS due
        FROM (SELECT *, :now::clock AS now FROM :jobs::rows(
            id uuid, org_id text, project_id text, job_type text, queue text, category text, priority smallint,
            run_at bigint, delay bigint, max_attempts integer, key text, lifetime bigint, subject text, payload jsonb,
            actor_type text, actor_id text, request_id text, correlation_id text, traceparent text, parent_id uuid,
            batch_id uuid, tags jsonb, deadline bigint, timeout_micros bigint, limit_key text, ties smallint,
            pending integer, fair smallint
        ) OFFSET 0) AS read
    ) AS asked
    RETURNING id, org_id, project_id, job_type, queue, state, actor_type, actor_id, request_id, correlation_id,
        created_at, pending, limit_key
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        created_at, 'job.enqueued', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
        correlation_id, 0, 0, NULL, NULL
    FROM job
    WHERE :audited::int > 1
)
SELECT CAST(id AS text), CAST(id AS text), state, 1 FROM job
WHERE (
    (state = 'queued' OR (state = 'blocked' AND pending = 0)) AND EXISTS (
        SELECT FROM {workers}
        WHERE idle_since IS NOT NULL AND lease_until > clock_timestamp() AND pg_notification_queue_usage() < 0.5
    ) AND pg_notify('{channel}', coalesce('limit:' || limit_key, queue)) IS NULL
) OR state <> 'queued'
-- early
-- An idle worker is woken before the log is on the disk, and claims meanwhile: no claim can be on the disk before the
-- job that it took. Only in a transaction of its own; the caller waits for the disk if the last column is true.
WITH job AS (
    INSERT INTO {live} ({+new_columns})
    SELECT
        id, org_id, project_id, job_type, queue, category, CASE
            WHEN pending > 0 THEN 'blocked'
            WHEN due > now THEN 'scheduled'
            WHEN limit_key IS NOT NULL THEN 'blocked'
            ELSE 'queued'
        END, priority, due, max_attempts, key, subject, payload, actor_type, actor_id, request_id, correlation_id,
        traceparent, parent_id, batch_id, tags, {instant(deadline)}, timeout_micros, now,
        coalesce(ties, 0), coalesce(pending, 0), limit_key, coalesce(fair, 0) = 1
    FROM (
        SELECT *, coalesce({instant(run_at)}, {later(now, delay)}, now) AS due
        FROM (SELECT *, :now::clock AS now FROM :jobs::rows(
            id uuid, org_id text, project_id text, job_type text, queue text, category text, priority smallint,
            run_at bigint, delay bigint, max_attempts integer, key text, lifetime bigint, subject text, payload jsonb,
            actor_type text, actor_id text, request_id text, correlation_id text, traceparent text, parent_id uuid,
            batch_id uuid, tags jsonb, deadline bigint, timeout_micros bigint, limit_key text, ties smallint,
            pending integer, fair smallint
        ) OFFSET 0) AS read
    ) AS asked
    RETURNING id, org_id, project_id, job_type, queue, state, actor_type, actor_id, request_id, correlation_id,
        created_at, pending, limit_key
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        created_at, 'job.enqueued', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
        correlation_id, 0, 0, NULL, NULL
    FROM job
    WHERE :audited::int > 1
)
SELECT CAST(id AS text), CAST(id AS text), state, 1, state = 'queued' FROM job
WHERE CASE
    WHEN (state = 'queued' OR (state = 'blocked' AND pending = 0)) AND EXISTS (
        SELECT FROM {workers}
        WHERE idle_since IS NOT NULL AND lease_until > clock_timestamp() AND pg_notification_queue_usage() < 0.5
    )
    THEN pg_notify('{channel}', coalesce('limit:' || limit_key, queue)) IS NULL OR state <> 'queued' OR (
        -- Of many rows, the first switches it off for all.
        current_setting('synchronous_commit') <> 'off' AND set_config('synchronous_commit', 'off', true) IS NOT NULL
    )
    ELSE state <> 'queued'
END

-- name: enqueue_keyed_jobs
-- plan: once
-- ON CONFLICT DO NOTHING waits for another session that is inserting the same key, and does not lock a key that is
-- held already, so a caller's long transaction delays no other session. The keys that it misses are decided by the
-- function `hold_key`: a plan that reads {keys} here would be kept from the day when the table was empty.
WITH asked AS MATERIALIZED (
    SELECT *, coalesce({instant(run_at)}, {later(now, delay)}, now) AS due
    FROM (SELECT *, :now::clock AS now FROM :jobs::rows(
        id uuid, org_id text, project_id text, job_type text, queue text, category text, priority smallint,
        run_at bigint, delay bigint, max_attempts integer, key text, lifetime bigint, subject text, payload jsonb,
        actor_type text, actor_id text, request_id text, correlation_id text, traceparent text, parent_id uuid,
        batch_id uuid, tags jsonb, deadline bigint, timeout_micros bigint, limit_key text, ties smallint,
        pending integer, fair smallint
    ) OFFSET 0) AS read
),
taken AS (
    INSERT INTO {keys} (org_id, project_id, key, job_id, first_seen_at, last_seen_at, expires_at)
    -- Without a lifetime, the key is held for ever.
    SELECT
        coalesce(org_id, ''), coalesce(project_id, ''), key, id, now, now,
        coalesce({later(now, lifetime)}, 'infinity')
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
held AS MATERIALIZED (
    SELECT missed.id, holder.job_id, holder.state
    FROM missed, LATERAL {prefix}hold_key(
        missed.org_id, missed.project_id, missed.key, missed.id, now, coalesce({later(now, lifetime)}, 'infinity'),
        :noted::int = 1
    ) AS holder
),
job AS (
    INSERT INTO {live} ({+new_columns})
    SELECT
        id, org_id, project_id, job_type, queue, category, CASE
            WHEN pending > 0 THEN 'blocked'
            WHEN due > now THEN 'scheduled'
            WHEN limit_key IS NOT NULL THEN 'blocked'
            ELSE 'queued'
        END, priority, due, max_attempts, key, subject, payload, actor_type, actor_id, request_id, correlation_id,
        traceparent, parent_id, batch_id, tags, {instant(deadline)}, timeout_micros, now,
        coalesce(ties, 0), coalesce(pending, 0), limit_key, coalesce(fair, 0) = 1
    FROM asked
    WHERE id NOT IN (SELECT id FROM held WHERE job_id <> id)
    RETURNING id, org_id, project_id, job_type, queue, state, actor_type, actor_id, request_id, correlation_id,
        created_at, pending, limit_key
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        created_at, 'job.enqueued', id, job_type, org_id, project_id, actor_type, actor_id, request_id,
        correlation_id, 0, 0, NULL, NULL
    FROM job
    WHERE :audited::int > 1
)
SELECT CAST(id AS text), CAST(id AS text), state, 1 FROM job
WHERE (
    (state = 'queued' OR (state = 'blocked' AND pending = 0)) AND EXISTS (
        SELECT FROM {workers}
        WHERE idle_since IS NOT NULL AND lease_until > clock_timestamp() AND pg_notification_queue_usage() < 0.5
    ) AND pg_notify('{channel}', coalesce('limit:' || limit_key, queue)) IS NULL
) OR state <> 'queued'
UNION ALL
SELECT CAST(id AS text), CAST(job_id AS text), state, 0 FROM held WHERE job_id <> id

-- fragment: expiry
-- Without a lifetime, the key is held for ever.
coalesce({later(now, lifetime)}, 'infinity')
