-- name: extend_worker
WITH me AS (
    UPDATE {workers}
    SET seen_at = :now::clock, lease_until = {later(:now::clock, :lease::int)},
        idle_since = CASE WHEN :idle::int = 1 THEN coalesce(idle_since, :now::clock) END
    WHERE id = :worker::text AND lost_at IS NULL AND {+in_scope}
    RETURNING id
)
SELECT CAST(live.id AS text), live.lease, CASE WHEN live.cancel_requested_at IS NULL THEN 0 ELSE 1 END
FROM me LEFT JOIN {live} AS live ON live.worker_id = me.id AND live.state = 'running' AND {scope(live)}

-- name: claim_jobs
-- plan: steady
-- One row of nulls means that the worker has no right to claim. `ctid = ANY (ARRAY(…))` runs its LIMIT exactly once;
-- `id IN (SELECT … LIMIT …)` may run it again for every row and claim more than the limit.
WITH clock AS MATERIALIZED (SELECT :now::clock AS now),
me AS MATERIALIZED (
    SELECT id FROM {workers}, clock WHERE id = :worker::text AND lost_at IS NULL AND lease_until > now
),
job AS (
    UPDATE {live} AS live
    SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker::text,
        started_at = (SELECT now FROM clock)
    WHERE EXISTS (SELECT FROM me) AND ctid = ANY (ARRAY(
        SELECT ctid FROM {live}
        WHERE queue = :queue::text AND state = 'queued'
            AND (priority, run_at, id) > (:past_priority::int, {instant(:past_run_at::int)}, :past_id::id)
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
    WHERE :audited::int > 1
)
SELECT {job_columns job} FROM job
UNION ALL
SELECT {job_nulls} WHERE NOT EXISTS (SELECT FROM me)

-- name: claim_unpaused_jobs
-- plan: steady
-- As claim_jobs, but reads past paused jobs, those of other types than `only`, and those of other orgs than the client's,
-- so it is used only when something is paused, for some types, or by a confined client.
WITH clock AS MATERIALIZED (SELECT :now::clock AS now),
me AS MATERIALIZED (
    SELECT id FROM {workers}, clock
    WHERE id = :worker::text AND lost_at IS NULL AND lease_until > now AND {scope({workers})}
),
job AS (
    UPDATE {live} AS live
    SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker::text,
        started_at = (SELECT now FROM clock)
    WHERE EXISTS (SELECT FROM me) AND ctid = ANY (ARRAY(
        SELECT ctid FROM {live}
        WHERE queue = :queue::text AND state = 'queued'
            AND (priority, run_at, id) > (:past_priority::int, {instant(:past_run_at::int)}, :past_id::id)
            AND job_type NOT IN (:types::texts) AND (:only::text IS NULL OR job_type IN (:only::texts))
            AND (org_id IS NULL OR org_id NOT IN (:orgs::texts)) AND {scope({live})}
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
    WHERE :audited::int > 1
)
SELECT {job_columns job} FROM job
UNION ALL
SELECT {job_nulls} WHERE NOT EXISTS (SELECT FROM me)

-- name: finish_jobs
-- plan: steady
-- Joined on id and lease: with other conditions the planner has chosen to scan the table. By
-- `= ANY (ARRAY[…])`, which only a probe of the index can serve: with `=`, a planner that takes the table for
-- empty reads the whole index and compares each row with each end, or joins by the lease, which most have in common.
-- A job in neither `gone` nor `back` had lost its lease; only the audit records it. Only exceptions are returned:
-- nearly always none.
WITH clock AS MATERIALIZED (SELECT :now::clock AS now),
ending AS MATERIALIZED (
    SELECT * FROM :ended::rows(
        id uuid, lease bigint, event text, state text, attempt integer, waits integer, crashes integer, error jsonb,
        result jsonb, outcome text, action text, detail jsonb
    )
),
giving AS MATERIALIZED (
    SELECT * FROM :returned::rows(
        id uuid, lease bigint, event text, state text, attempt integer, waits integer, crashes integer, error jsonb,
        outcome text, delay bigint, ran integer, action text, detail jsonb, cost bigint
    )
),
failed AS MATERIALIZED (
    SELECT * FROM :failed::rows(id uuid, lease bigint, attempt integer, action text, detail jsonb)
),
gone AS (
    DELETE FROM {live} AS live USING ending
    WHERE live.id = ANY (ARRAY[ending.id]) AND live.lease = ANY (ARRAY[ending.lease]) AND NOT live.rerun_requested
    RETURNING {carried live}, ending.event, ending.state AS to_state, ending.attempt AS to_attempt,
        ending.waits AS to_waits, ending.crashes AS to_crashes,
        CASE WHEN ending.state <> 'succeeded' THEN coalesce(ending.error, live.error) END AS to_error,
        ending.result, ending.outcome, ending.action, ending.detail
),
moved AS (
    INSERT INTO {ended} ({carried}, {+end_columns})
    SELECT {carried gone}, to_state, to_attempt, to_waits, to_crashes, to_error, result, outcome, now FROM gone, clock
),
held AS MATERIALIZED (
    SELECT giving.*, live.cancel_requested_at
    FROM giving JOIN {live} AS live ON live.id = ANY (ARRAY[giving.id]) AND live.lease = ANY (ARRAY[giving.lease])
    WHERE NOT live.rerun_requested
    FOR UPDATE OF live
),
back AS (
    -- The lease is raised when a job is released, too: else its last holder could still finish it. No job waits
    -- beyond its deadline: it is due then, to die.
    UPDATE {live} AS live
    SET state = CASE WHEN held.delay > 0 THEN held.state ELSE 'queued' END, run_at = least({later(now, held.delay)}, live.deadline),
        attempt = held.attempt, lease = live.lease + 1, waits = held.waits, crashes = held.crashes,
        error = coalesce(held.error, live.error), progress = NULL
    FROM held, clock
    WHERE live.id = ANY (ARRAY[held.id]) AND held.cancel_requested_at IS NULL
    RETURNING live.*, held.event, held.outcome, held.ran, held.error AS run_error, held.action, held.detail,
        held.cost
),
past AS (
    INSERT INTO {attempts} (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error, cost_micros)
    SELECT id, lease - 1, ran, worker_id, started_at, now, outcome, run_error, cost FROM back, clock
),
event AS (
    INSERT INTO {audit} ({+audit_columns}, action)
    -- The attempt at which a job dies precedes its death.
    SELECT
        now, 'job.failed', gone.id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id,
        failed.attempt, gone.lease, worker_id, failed.detail, failed.action
    FROM failed JOIN gone ON gone.id = failed.id AND gone.lease = failed.lease, clock
    WHERE :audited::int > 1
    UNION ALL
    SELECT
        now, event, id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, to_attempt,
        lease, worker_id, detail, action
    FROM gone, clock
    WHERE :audited::int > 0
    UNION ALL
    SELECT
        now, event, id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, ran,
        lease - 1, worker_id, detail, action
    FROM back, clock
    WHERE :audited::int > 1
),
missed AS MATERIALIZED (
    -- Either the lease was lost, or the job was reset and is to run again.
    SELECT id, attempt, lease, EXISTS (
        SELECT FROM {live} AS live WHERE live.id = ANY (ARRAY[asked.id]) AND live.lease = asked.lease
    ) AS again
    FROM (SELECT id, attempt, lease FROM ending UNION ALL SELECT id, ran, lease FROM giving) AS asked
    WHERE id NOT IN (SELECT id FROM gone) AND id NOT IN (SELECT id FROM held)
),
refused AS (
    INSERT INTO {audit} ({+refused_columns})
    SELECT now, 'job.stale_result_rejected', id, attempt, lease, whose.*
    FROM missed CROSS JOIN clock LEFT JOIN LATERAL {prefix}whose(missed.id) AS whose ON true
    WHERE NOT again
    RETURNING job_id
),
woken AS MATERIALIZED (
    SELECT count(pg_notify('{channel}', queue)) AS sent
    FROM (SELECT DISTINCT queue FROM back WHERE state = 'queued') AS ready
    WHERE EXISTS (
        SELECT FROM {workers}
        WHERE idle_since IS NOT NULL AND lease_until > clock_timestamp() AND pg_notification_queue_usage() < 0.5
    )
)
SELECT CAST(job_id AS text), 'lost' FROM refused
UNION ALL
SELECT CAST(id AS text), 'tied' FROM gone WHERE flow > 0
UNION ALL
SELECT DISTINCT limit_key, 'permit' FROM gone WHERE limit_key IS NOT NULL
UNION ALL
SELECT DISTINCT limit_key, 'permit' FROM back WHERE limit_key IS NOT NULL
UNION ALL
SELECT CAST(id AS text), 'again' FROM missed WHERE again
UNION ALL
SELECT CAST(id AS text), 'cancelled' FROM held WHERE cancel_requested_at IS NOT NULL
UNION ALL
SELECT NULL, NULL FROM woken WHERE sent < 0

-- name: finish_alike
-- plan: steady
-- Nearly every write: jobs that all have the same outcome and the same lease. No join and no set that is read twice,
-- which saves a sixth of the time. Comparing the counts shows whether any job was missed.
WITH clock AS MATERIALIZED (SELECT :now::clock AS now),
ending AS MATERIALIZED (SELECT id FROM :ended::rows(id uuid)),
gone AS (
    DELETE FROM {live} AS live
    WHERE id = ANY (ARRAY(SELECT id FROM ending)) AND lease = :lease::int AND NOT rerun_requested
    RETURNING {carried live}, error
),
moved AS (
    INSERT INTO {ended} ({carried}, {+end_columns})
    SELECT
        {carried gone}, :state::text, :attempt::int, :waits::int, :crashes::int,
        CASE WHEN :state::text <> 'succeeded' THEN coalesce(:error::json, error) END, :result::json, :outcome::text, now
    FROM gone, clock
),
event AS (
    INSERT INTO {audit} ({+audit_columns}, action)
    SELECT
        now, :event::text, id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id,
        :attempt::int, lease, worker_id, :detail::json, :action::text
    FROM gone, clock
    WHERE :audited::int > 0
),
missed AS MATERIALIZED (
    SELECT id, :attempt::int AS attempt, :lease::int AS lease, EXISTS (
        SELECT FROM {live} AS live WHERE live.id = ANY (ARRAY[ending.id]) AND live.lease = :lease::int
    ) AS again
    FROM ending
    WHERE (SELECT count(*) FROM gone) < (SELECT count(*) FROM ending) AND id NOT IN (SELECT id FROM gone)
),
refused AS (
    INSERT INTO {audit} ({+refused_columns})
    SELECT now, 'job.stale_result_rejected', id, attempt, lease, whose.*
    FROM missed CROSS JOIN clock LEFT JOIN LATERAL {prefix}whose(missed.id) AS whose ON true
    WHERE NOT again
    RETURNING job_id
)
SELECT CAST(job_id AS text), 'lost' FROM refused
UNION ALL
SELECT told.* FROM gone, LATERAL (
    VALUES (CASE WHEN flow > 0 THEN CAST(id AS text) END, 'tied'), (limit_key, 'permit')
) AS told(name, what)
WHERE (flow > 0 OR limit_key IS NOT NULL) AND name IS NOT NULL
UNION ALL
SELECT CAST(id AS text), 'again' FROM missed WHERE again
