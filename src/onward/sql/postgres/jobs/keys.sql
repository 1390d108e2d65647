-- fragment: changes
:changes::rows(
    id uuid, job_type text, org_id text, project_id text, key text, kind text, states text, payload jsonb, priority smallint, max_attempts integer, run_at bigint, delay bigint,
    deadline bigint, timeout_micros bigint, lifetime bigint, actor_type text, actor_id text, request_id text,
    correlation_id text, traceparent text, limit_key text
)

-- name: change_held_jobs
-- Keys are locked first, then jobs, so that each decision is about the newest version. A job that has lost its key
-- meanwhile is in no row of the answer. A job that has just ended, or was removed, is in a row without a state.
WITH {+clock},
asked AS MATERIALIZED (
    SELECT changes.*, coalesce({instant(run_at)}, {later(now, delay)}, now) AS due, now FROM {+changes}, clock
),
owned AS MATERIALIZED (
    SELECT asked.* FROM asked JOIN {keys} AS k
        ON k.org_id = coalesce(asked.org_id, '') AND k.project_id = coalesce(asked.project_id, '') AND k.key = asked.key
        AND k.job_id = asked.id
    WHERE {scope(k)}
    ORDER BY k.org_id, k.project_id, k.key
    FOR UPDATE OF k
),
target AS MATERIALIZED (
    SELECT owned.*, live.state, {+may_change_live} AS may FROM owned JOIN {live} AS live ON live.id = ANY (ARRAY[owned.id])
    ORDER BY live.id
    FOR UPDATE OF live
),
waiting AS (
    UPDATE {live} AS live
    SET payload = t.payload,
        priority = CASE WHEN t.kind = 'coalesced' THEN live.priority ELSE t.priority END,
        run_at = CASE WHEN t.kind = 'coalesced' THEN live.run_at ELSE t.due END,
        -- A ready job holds a permit, but of no other limit.
        state = CASE
            WHEN live.pending > 0 THEN 'blocked'
            WHEN CASE WHEN t.kind = 'coalesced' THEN live.state = 'scheduled' ELSE t.due > t.now END THEN 'scheduled'
            WHEN t.limit_key IS NULL OR (live.state = 'queued' AND t.limit_key = live.limit_key) THEN 'queued'
            ELSE 'blocked'
        END,
        limit_key = t.limit_key,
        actor_type = t.actor_type, actor_id = t.actor_id, request_id = t.request_id,
        correlation_id = t.correlation_id, traceparent = t.traceparent,
        deadline = CASE WHEN t.kind = 'coalesced' THEN live.deadline ELSE {instant(t.deadline)} END,
        attempt = CASE WHEN t.kind = 'reset' THEN 0 ELSE live.attempt END,
        waits = CASE WHEN t.kind = 'reset' THEN 0 ELSE live.waits END,
        crashes = CASE WHEN t.kind = 'reset' THEN 0 ELSE live.crashes END,
        error = CASE WHEN t.kind = 'reset' THEN NULL ELSE live.error END,
        max_attempts = CASE WHEN t.kind = 'reset' THEN t.max_attempts ELSE live.max_attempts END,
        timeout_micros = CASE WHEN t.kind = 'reset' THEN t.timeout_micros ELSE live.timeout_micros END
    FROM target AS t
    WHERE live.id = t.id AND t.state <> 'running' AND t.may
    RETURNING live.*, t.kind AS change
),
again AS (
    INSERT INTO {reruns} AS rerun (
        job_id, payload, priority, max_attempts, run_at, deadline, timeout_micros, actor_type, actor_id, request_id,
        correlation_id, traceparent, limit_key
    )
    SELECT
        id, payload, priority, max_attempts, due, {instant(deadline)}, timeout_micros, actor_type, actor_id, request_id,
        correlation_id, traceparent, limit_key
    FROM target
    WHERE state = 'running' AND may
    ON CONFLICT (job_id) DO UPDATE
    SET payload = excluded.payload, priority = excluded.priority, max_attempts = excluded.max_attempts,
        run_at = excluded.run_at, deadline = excluded.deadline, timeout_micros = excluded.timeout_micros,
        actor_type = excluded.actor_type, actor_id = excluded.actor_id, request_id = excluded.request_id,
        correlation_id = excluded.correlation_id, traceparent = excluded.traceparent, limit_key = excluded.limit_key
    RETURNING job_id
),
running AS (
    UPDATE {live} AS live SET rerun_requested = true FROM again WHERE live.id = again.job_id
    RETURNING live.*, 'rerun_requested' AS change
),
gone AS (
    DELETE FROM {ended} AS ended USING owned
    WHERE ended.id = ANY (ARRAY[owned.id]) AND {+may_change_ended}
    RETURNING ended.*, owned.payload AS to_payload, owned.priority AS to_priority,
        owned.max_attempts AS to_max_attempts, owned.due, owned.now, {instant(owned.deadline)} AS to_deadline,
        owned.timeout_micros AS to_timeout_micros, owned.limit_key AS to_limit_key, owned.actor_type AS by_type,
        owned.actor_id AS by_id, owned.request_id AS by_request, owned.correlation_id AS by_correlation,
        owned.traceparent AS by_trace
),
past AS (
    INSERT INTO {attempts} (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error, cost_micros)
    SELECT id, lease, attempt, worker_id, started_at, ended_at, outcome, error, {+run_cost} FROM gone
    WHERE {+ended_running}
),
back AS (
    -- The lease is raised: else the worker that ended the job could end it once more.
    INSERT INTO {live} ({+reset_columns})
    SELECT
        id, org_id, project_id, job_type, queue, category,
        CASE WHEN due > now THEN 'scheduled' WHEN to_limit_key IS NULL THEN 'queued' ELSE 'blocked' END, to_priority,
        due, to_max_attempts, lease + 1, key, subject, to_payload, cost_micros, by_type, by_id, by_request,
        by_correlation, by_trace, parent_id, batch_id, tags, to_deadline, to_timeout_micros, created_at, abs(flow),
        to_limit_key, fair
    FROM gone
    RETURNING *, 'reset' AS change
),
changed AS MATERIALIZED (
    SELECT * FROM waiting UNION ALL SELECT * FROM running UNION ALL SELECT * FROM back
),
seen AS (
    UPDATE {keys} AS k
    SET last_seen_at = owned.now, expires_at = CASE WHEN changed.id IS NULL THEN k.expires_at ELSE {+expiry} END
    FROM owned LEFT JOIN changed ON changed.id = owned.id
    WHERE k.org_id = coalesce(owned.org_id, '') AND k.project_id = coalesce(owned.project_id, '') AND k.key = owned.key
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        owned.now, 'job.' || changed.change, changed.id, changed.job_type, changed.org_id, changed.project_id, owned.actor_type,
        owned.actor_id, owned.request_id, owned.correlation_id, attempt, lease, worker_id, CAST(NULL AS jsonb)
    FROM changed JOIN owned ON owned.id = changed.id
    WHERE :audited::int > 1
),
woken AS MATERIALIZED (
    SELECT count(pg_notify('{channel}', queue)) AS sent
    FROM (SELECT DISTINCT queue FROM changed WHERE state = 'queued') AS ready
    WHERE {+someone_idles}
)
SELECT CAST(id AS text), state, change FROM changed
UNION ALL
SELECT CAST(id AS text), state, NULL FROM target WHERE id NOT IN (SELECT id FROM changed)
UNION ALL
SELECT CAST(owned.id AS text), ended.state, NULL
FROM owned LEFT JOIN {ended} AS ended
    ON ended.id = ANY (ARRAY[owned.id]) AND NOT ({+may_change_ended})
WHERE owned.id NOT IN (SELECT id FROM changed) AND owned.id NOT IN (SELECT id FROM target)
UNION ALL
SELECT NULL, NULL, NULL FROM woken WHERE sent < 0

-- fragment: may_change_live
-- A job of another type keeps its own payload, whatever its key.
strpos(owned.states, live.state) > 0 AND live.job_type = owned.job_type

-- fragment: may_change_ended
strpos(owned.states, ended.state) > 0 AND ended.job_type = owned.job_type

-- fragment: ended_running
-- A job that was cancelled while it waited to run again has its last run in the history already.
started_at IS NOT NULL AND NOT EXISTS (
    SELECT FROM {attempts} AS earlier WHERE earlier.job_id = gone.id AND earlier.lease = gone.lease - 1
)

-- name: forget_key
WITH {+clock},
gone AS (
    DELETE FROM {keys}
    WHERE org_id = coalesce(nullif(:org_id::text, ''), :only_org::text, '') AND project_id = :project_id::text
        AND key = :key::text AND {+in_scope}
    RETURNING org_id, project_id, job_id
),
event AS (
    INSERT INTO {audit} (at, event, job_id, org_id, project_id, actor_type, actor_id, detail)
    SELECT
        now, 'key.forgotten', job_id, nullif(org_id, ''), nullif(project_id, ''), :actor_type::text, :actor_id::text,
        :detail::json
    FROM gone, clock
)
SELECT CAST(job_id AS text) FROM gone

-- name: lock_held_job
-- The key first, then the job, as everywhere: else two of these would wait for each other.
WITH owned AS MATERIALIZED (
    SELECT job_id FROM {keys}
    WHERE org_id = :org_id::text AND project_id = :project_id::text AND key = :key::text AND job_id = :id::id
        AND {+in_scope}
    FOR UPDATE
)
SELECT CAST(live.id AS text) FROM owned JOIN {live} AS live ON live.id = owned.job_id
FOR UPDATE OF live

-- name: rerun_jobs
-- A run that has ended, of a job that was reset meanwhile: the run goes to the history, and the job starts again.
WITH {+clock},
run AS MATERIALIZED (
    SELECT * FROM :runs::rows(
        id uuid, lease bigint, event text, outcome text, ran integer, error jsonb, cost bigint,
        action text, failed_action text, detail jsonb
    )
),
target AS MATERIALIZED (
    SELECT
        live.id, live.actor_type, live.actor_id, live.request_id, live.correlation_id, run.event, run.outcome, run.ran,
        run.error AS run_error, run.cost, run.action, run.failed_action, run.detail
    FROM run JOIN {live} AS live ON live.id = ANY (ARRAY[run.id]) AND live.lease = run.lease
    WHERE live.rerun_requested
    FOR UPDATE OF live
),
taken AS (
    DELETE FROM {reruns} AS rerun USING target WHERE rerun.job_id = target.id RETURNING rerun.*
),
back AS (
    UPDATE {live} AS live
    -- A job with a limit keeps its permit, unless its limit changes.
    SET state = CASE
            WHEN taken.run_at > now THEN 'scheduled'
            WHEN coalesce(taken.limit_key = live.limit_key, taken.limit_key IS NULL) THEN 'queued'
            ELSE 'blocked'
        END, run_at = taken.run_at, limit_key = taken.limit_key,
        payload = taken.payload, priority = taken.priority, max_attempts = taken.max_attempts,
        actor_type = taken.actor_type, actor_id = taken.actor_id, request_id = taken.request_id,
        correlation_id = taken.correlation_id, traceparent = taken.traceparent,
        deadline = taken.deadline, timeout_micros = taken.timeout_micros, attempt = 0, waits = 0, crashes = 0,
        error = NULL, progress = NULL, cancel_requested_at = NULL, rerun_requested = false, lease = live.lease + 1
    FROM taken, clock
    WHERE live.id = taken.job_id
    RETURNING live.*
),
past AS (
    INSERT INTO {attempts} (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error, cost_micros)
    SELECT back.id, back.lease - 1, ran, worker_id, started_at, now, outcome, run_error, cost
    FROM back JOIN target ON target.id = back.id, clock
),
event AS (
    INSERT INTO {audit} ({+audit_columns}, action)
    -- The run that has ended was that of the actor before. The attempt at which a job dies precedes its death.
    SELECT
        now, 'job.failed', back.id, job_type, org_id, project_id, target.actor_type, target.actor_id, target.request_id,
        target.correlation_id, ran, lease - 1, worker_id, detail, failed_action
    FROM back JOIN target ON target.id = back.id, clock
    WHERE event = 'job.deadlettered' AND :audited::int > 1
    UNION ALL
    SELECT
        now, event, back.id, job_type, org_id, project_id, target.actor_type, target.actor_id, target.request_id,
        target.correlation_id, ran, lease - 1, worker_id, detail, action
    FROM back JOIN target ON target.id = back.id, clock
    WHERE :audited::int > 0
    UNION ALL
    SELECT
        now, 'job.reset', id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, 0,
        lease, NULL, NULL, NULL
    FROM back, clock
    WHERE :audited::int > 1
),
woken AS MATERIALIZED (
    SELECT count(pg_notify('{channel}', queue)) AS sent
    FROM (SELECT DISTINCT queue FROM back WHERE state = 'queued') AS ready
    WHERE {+someone_idles}
)
SELECT CAST(id AS text) FROM back
UNION ALL
SELECT NULL FROM woken WHERE sent < 0

-- name: lock_lapsed_keys
-- The next statement checks whether their jobs are live: it sees what was committed before these locks.
SELECT org_id, project_id, key FROM {keys}
WHERE {+lapsed}
ORDER BY org_id, project_id, key
FOR UPDATE SKIP LOCKED

-- name: prune_keys
DELETE FROM {keys} AS k USING :lapsed::rows(org_id text, project_id text, key text)
WHERE k.org_id = lapsed.org_id AND k.project_id = lapsed.project_id AND k.key = lapsed.key
    AND NOT EXISTS (SELECT FROM {live} AS live WHERE live.id = k.job_id)
RETURNING k.key
