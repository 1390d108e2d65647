-- name: store_signal
WITH {+clock},
stored AS (
    INSERT INTO {signals} (id, org_id, project_id, event, key, payload, at, expires_at, actor_type, actor_id)
    SELECT
        :id::id, :org_id::text, :project_id::text, :event::text, :key::text, :payload::json, now, {later(now, :keep::int)},
        :actor_type::text, :actor_id::text
    FROM clock
    WHERE {+given_in_scope}
    RETURNING id
),
event AS (
    INSERT INTO {audit} (at, event, org_id, project_id, actor_type, actor_id, detail)
    SELECT now, 'signal.sent', nullif(:org_id::text, ''), nullif(:project_id::text, ''), :actor_type::text, :actor_id::text, :detail::json
    FROM stored, clock
    WHERE :audited::int > 1
)
SELECT CAST(id AS text) FROM stored

-- name: park_jobs
-- In one transaction with the finish of their runs, which schedules them under the next lease.
WITH asked AS MATERIALIZED (
    SELECT * FROM :parked::rows(id uuid, lease bigint, event text, key text, until bigint, seen jsonb)
),
job AS (
    UPDATE {live} AS live SET run_at = {instant(asked.until)}
    FROM asked
    WHERE live.id = ANY (ARRAY[asked.id]) AND live.lease = asked.lease AND live.state = 'scheduled'
    RETURNING live.id, live.lease, live.org_id, live.project_id, live.run_at, asked.event, asked.key, asked.seen
)
INSERT INTO {awaited} AS waits (job_id, lease, org_id, project_id, event, key, until, seen)
SELECT id, lease, coalesce(org_id, ''), coalesce(project_id, ''), event, coalesce(key, ''), run_at, seen FROM job WHERE event IS NOT NULL
ON CONFLICT (job_id) DO UPDATE
SET lease = excluded.lease, org_id = excluded.org_id, project_id = excluded.project_id, event = excluded.event, key = excluded.key,
    until = excluded.until, seen = excluded.seen, fresh = 1
RETURNING CAST(job_id AS text)

-- name: wake_waiting
-- Reads what is fresh, or one signal, and makes the jobs due whose signal has arrived. Never waits: a job that another
-- session holds is left for the next time, and so is the fresh row that led to it. Whatever is committed after this
-- statement began is fresh itself.
WITH {+clock},
sent AS MATERIALIZED (
    SELECT id, org_id, project_id, event, key FROM {signals}
    WHERE fresh = 1 AND (:signal::text IS NULL OR id = :signal::id) AND {+in_scope}
    ORDER BY at
    LIMIT :limit::int
    FOR UPDATE SKIP LOCKED
),
begun AS MATERIALIZED (
    SELECT * FROM {awaited}
    WHERE fresh = 1 AND :signal::text IS NULL AND {+in_scope}
    ORDER BY until
    LIMIT :limit::int
    FOR UPDATE SKIP LOCKED
),
met AS MATERIALIZED (
    SELECT waits.job_id, sent.id AS signal_id
    FROM sent JOIN {awaited} AS waits
        ON waits.org_id = sent.org_id AND waits.event = sent.event AND waits.key = sent.key
        AND sent.project_id IN ('', waits.project_id)
    WHERE NOT waits.seen @> to_jsonb(CAST(sent.id AS text)) AND {+still_waits}
    UNION ALL
    SELECT waits.job_id, NULL
    FROM begun AS waits
    WHERE {+still_waits} AND EXISTS (
        SELECT FROM {signals} AS kept, clock
        WHERE kept.org_id = waits.org_id AND kept.event = waits.event AND kept.key = waits.key
            AND kept.project_id IN ('', waits.project_id) AND kept.expires_at > clock.now AND NOT waits.seen @> to_jsonb(CAST(kept.id AS text))
    )
),
ready AS MATERIALIZED (
    SELECT live.id FROM {live} AS live JOIN {awaited} AS waits ON waits.job_id = live.id AND waits.lease = live.lease
    WHERE live.id IN (SELECT job_id FROM met) AND live.state = 'scheduled'
    ORDER BY live.id
    LIMIT :limit::int
    FOR UPDATE SKIP LOCKED
),
woken AS (
    UPDATE {live} AS live SET run_at = now FROM ready, clock WHERE live.id = ready.id RETURNING live.id
),
over AS (DELETE FROM {awaited} AS waits USING ready WHERE waits.job_id = ready.id),
looked AS (
    UPDATE {signals} AS signal SET fresh = 0 FROM sent
    WHERE signal.id = sent.id AND NOT EXISTS (
        SELECT FROM met WHERE met.signal_id = sent.id AND met.job_id NOT IN (SELECT id FROM ready)
    )
),
registered AS (
    UPDATE {awaited} AS waits SET fresh = 0 FROM begun
    WHERE waits.job_id = begun.job_id AND waits.job_id NOT IN (SELECT job_id FROM met)
)
SELECT count(*) FROM woken

-- name: prune_signals
WITH gone AS MATERIALIZED (
    SELECT id FROM {signals} WHERE expires_at <= :now::clock ORDER BY expires_at LIMIT :limit::int FOR UPDATE SKIP LOCKED
)
DELETE FROM {signals} AS signal USING gone WHERE signal.id = gone.id
RETURNING CAST(signal.id AS text)

-- name: prune_awaited
-- By the lease as well, because a job that is parked again meanwhile has another row.
WITH stale AS MATERIALIZED (
    SELECT job_id, lease FROM {awaited} AS waits
    WHERE {+ended_wait}
    LIMIT :limit::int
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {awaited} AS waits USING stale WHERE waits.job_id = stale.job_id AND waits.lease = stale.lease
RETURNING CAST(waits.job_id AS text)
