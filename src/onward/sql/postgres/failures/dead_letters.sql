-- fragment: group_of
-- Written exactly as in the index. Deaths whose error has no fingerprint are one group.
(coalesce(error ->> 'fingerprint', 'unknown') COLLATE "C")

-- fragment: class_of
error ->> 'error_class'

-- name: list_dead_groups
-- Only the groups of the page are counted, up to a cap. The functions use the index whatever the planner estimates.
WITH newest AS MATERIALIZED (
    SELECT * FROM {prefix}dead_groups(:low::text, :high::text, :only_org::text, :only_project::text, :org_id::text, :most::int)
),
page AS MATERIALIZED (
    SELECT newest.fingerprint, newest.counted, ended.id, ended.job_type, ended.error FROM newest {+page_of_groups}
)
SELECT
    fingerprint, CAST(id AS text), job_type, CAST(error AS text),
    coalesce(counted, {prefix}count_dead_group(fingerprint, :only_org::text, :only_project::text, :org_id::text, :cap::int))
FROM page
ORDER BY page.id DESC

-- name: replay_dead_letters
-- Keys are locked first, then jobs, as everywhere. The lock on a job excludes a reset, which would take the job, too.
-- Another writer that resolves the same death meets the primary key. Of jobs with one key the newest is replayed.
WITH {+clock},
asked AS MATERIALIZED (
    SELECT
        id, lease, key, coalesce(org_id, '') AS org_id, coalesce(project_id, '') AS project_id,
        row_number() OVER (PARTITION BY org_id, project_id, key ORDER BY id DESC) AS place
    FROM {ended} AS gone
    WHERE {+asked_and_unresolved}
),
locked AS MATERIALIZED (
    SELECT asked.id FROM asked JOIN {keys} AS k
        ON k.org_id = asked.org_id AND k.project_id = asked.project_id AND k.key = asked.key
    WHERE asked.place = 1
    ORDER BY k.org_id, k.project_id, k.key
    FOR UPDATE OF k
),
keyed AS MATERIALIZED (
    SELECT asked.*, locked.id AS of_locked FROM asked LEFT JOIN locked ON locked.id = asked.id
    WHERE asked.key IS NOT NULL AND asked.place = 1
    ORDER BY asked.org_id COLLATE "C", asked.project_id COLLATE "C", asked.key COLLATE "C"
),
held AS MATERIALIZED (
    -- A key that its job no longer holds is taken over, as by an enqueue.
    SELECT keyed.id, holder.job_id
    FROM keyed CROSS JOIN clock, LATERAL {prefix}hold_key(
        keyed.org_id, keyed.project_id, keyed.key, keyed.id, clock.now, clock.now
    ) AS holder
),
target AS MATERIALIZED (
    SELECT gone.id, gone.lease, gone.org_id
    FROM asked LEFT JOIN held ON held.id = asked.id
    JOIN {ended} AS gone ON gone.id = ANY (ARRAY[asked.id]) AND gone.lease = asked.lease AND gone.state = 'dead'
    WHERE (asked.key IS NULL OR held.job_id = asked.id)
        AND {scope(gone)}
    ORDER BY gone.id
    FOR UPDATE OF gone
),
resolved AS (
    INSERT INTO {dead_letters} ({+resolution_columns})
    SELECT id, lease, org_id, 'replayed', now, :actor_type::text, :actor_id::text, :reason::text FROM target, clock
    ON CONFLICT DO NOTHING
    RETURNING job_id, lease
),
gone AS (
    DELETE FROM {ended} AS ended USING resolved
    WHERE ended.id = ANY (ARRAY[resolved.job_id]) AND ended.lease = resolved.lease
    RETURNING ended.*
),
past AS (
    INSERT INTO {attempts} (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error, cost_micros)
    SELECT id, lease, attempt, worker_id, started_at, ended_at, outcome, error, {+run_cost} FROM gone
    WHERE {+ended_running}
),
back AS (
    -- The lease is raised: else the worker that ended the job could end it once more.
    INSERT INTO {live} ({+reset_columns}, attempt, waits, crashes)
    SELECT
        id, org_id, project_id, job_type, queue, category,
        CASE WHEN wait > 0 THEN 'scheduled' WHEN limit_key IS NULL THEN 'queued' ELSE 'blocked' END, priority, {later(now, wait)}, max_attempts, lease + 1, key, subject, payload, cost_micros, actor_type, actor_id,
        request_id, correlation_id, traceparent, parent_id, batch_id, tags,
        CASE WHEN deadline > {later(now, wait)} THEN deadline END, timeout_micros, created_at, abs(flow),
        limit_key, fair, CASE WHEN :reset::int = 1 THEN 0 ELSE attempt END, CASE WHEN :reset::int = 1 THEN 0 ELSE waits END,
        CASE WHEN :reset::int = 1 THEN 0 ELSE crashes END
    FROM (SELECT *, :delay::int + (row_number() OVER (ORDER BY id) - 1) * :every::int AS wait FROM gone) AS spaced, clock
    RETURNING *
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        now, 'job.replayed', id, job_type, org_id, project_id, :actor_type::text, :actor_id::text, request_id,
        correlation_id, attempt, lease, NULL, :detail::json
    FROM back, clock
),
woken AS MATERIALIZED (
    SELECT count(pg_notify('{channel}', queue)) AS sent
    FROM (SELECT DISTINCT queue FROM back WHERE state = 'queued') AS ready
    WHERE {+someone_idles}
)
SELECT CAST(back.id AS text) FROM back, woken WHERE woken.sent >= 0

-- name: discard_dead_letters
WITH {+clock},
target AS MATERIALIZED (
    SELECT gone.id, gone.lease FROM {ended} AS gone WHERE {+asked_and_unresolved}
    ORDER BY gone.id
    FOR UPDATE
),
resolved AS (
    INSERT INTO {dead_letters} ({+resolution_columns})
    SELECT gone.id, gone.lease, gone.org_id, 'discarded', now, :actor_type::text, :actor_id::text, :reason::text
    FROM target JOIN {ended} AS gone ON gone.id = ANY (ARRAY[target.id]), clock
    ON CONFLICT DO NOTHING
    RETURNING job_id
),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        now, 'job.discarded', id, job_type, org_id, project_id, :actor_type::text, :actor_id::text, request_id,
        correlation_id, attempt, lease, NULL, :detail::json
    FROM resolved JOIN {ended} AS gone ON gone.id = ANY (ARRAY[resolved.job_id]), clock
)
SELECT CAST(job_id AS text) FROM resolved

-- name: fix_dead_letter
-- Locked in the order of a reset: the key, then the job. An enqueue with this key waits meanwhile and finds the
-- successor.
WITH asked AS MATERIALIZED (SELECT * FROM {+asked}),
owned AS MATERIALIZED (
    SELECT k.org_id, k.project_id, k.key, k.job_id FROM {keys} AS k JOIN {ended} AS gone ON {+own_key}
    WHERE gone.id = :id::id AND {scope(gone)}
    FOR UPDATE OF k
),
target AS MATERIALIZED (
    SELECT gone.*, owned.job_id IS NOT NULL AS owns
    FROM {ended} AS gone LEFT JOIN owned ON owned.job_id = gone.id
    WHERE gone.id = :id::id AND gone.lease = :lease::int AND gone.state = 'dead'
        AND {scope(gone)}
    FOR UPDATE OF gone
),
resolved AS (
    INSERT INTO {dead_letters} ({+resolution_columns}, successor_id, diff)
    SELECT
        target.id, target.lease, target.org_id, 'fixed', asked.now, :actor_type::text, :actor_id::text, :reason::text,
        asked.id, :diff::json
    FROM target, asked
    ON CONFLICT DO NOTHING
    RETURNING *
),
job AS (
    INSERT INTO {live} ({+new_columns})
    SELECT
        asked.id, asked.org_id, asked.project_id, asked.job_type, asked.queue, asked.category,
        CASE WHEN target.limit_key IS NULL THEN 'queued' ELSE 'blocked' END, asked.priority, asked.now, asked.max_attempts, CASE WHEN target.owns THEN target.key END, asked.subject, asked.payload,
        asked.actor_type, asked.actor_id, asked.request_id, asked.correlation_id, asked.traceparent, asked.parent_id,
        asked.batch_id, asked.tags, CASE WHEN {instant(asked.deadline)} > asked.now THEN {instant(asked.deadline)} END,
        asked.timeout_micros, asked.now, 0, 0, target.limit_key, target.fair
    FROM asked JOIN resolved ON resolved.successor_id = asked.id JOIN target ON target.id = resolved.job_id
    RETURNING *
),
moved AS (
    UPDATE {keys} AS k
    SET job_id = job.id, last_seen_at = job.created_at, status = NULL, result_ref = NULL, error_ref = NULL
    FROM owned, job
    WHERE k.org_id = owned.org_id AND k.project_id = owned.project_id AND k.key = owned.key
),
fixed AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        job.created_at, 'job.fixed', target.id, target.job_type, target.org_id, target.project_id, :actor_type::text,
        :actor_id::text, target.request_id, target.correlation_id, target.attempt, target.lease, NULL, :detail::json
    FROM target, job
),
{+enqueued},
woken AS MATERIALIZED (
    SELECT count(pg_notify('{channel}', queue)) AS sent FROM job WHERE {+someone_idles}
)
SELECT {+letter_columns} FROM resolved AS letter, woken WHERE woken.sent >= 0
