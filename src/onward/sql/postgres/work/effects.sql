-- fragment: effect_holder
-- The job is locked, so that its lease can't be lost between this look and the commit.
{+clock},
holder AS MATERIALIZED (
    SELECT id, lease, attempt FROM {live}
    WHERE id = :job_id::id AND lease = :lease::int AND state = 'running' AND {+in_scope}
    FOR SHARE
),
refused AS (
    INSERT INTO {audit} ({+refused_columns}, detail)
    SELECT
        now, 'job.stale_result_rejected', :job_id::id, CAST(:attempt::int AS integer), :lease::int, whose.*, :detail::json
    FROM clock CROSS JOIN LATERAL {prefix}whose(:job_id::id) AS whose
    WHERE NOT EXISTS (SELECT FROM holder) AND {+in_scope}
)

-- name: begin_effect
WITH {+effect_holder},
begun AS (
    INSERT INTO {effects} AS effect ({+new_effect})
    SELECT
        id, :name::text, 'once', 'begun', :payload_hash::text, 0, NULL, lease, attempt, now, NULL
    FROM holder, clock
    ON CONFLICT (job_id, name) DO UPDATE SET {+effect_begun_again}
    RETURNING *
)
SELECT {+effect_columns} FROM begun

-- name: keep_effect
WITH {+effect_holder},
kept AS (
    INSERT INTO {effects} AS effect ({+new_effect})
    SELECT
        id, :name::text, :kind::text, 'done', :payload_hash::text, :generation::int, :result::json, lease,
        attempt, NULL, now
    FROM holder, clock
    ON CONFLICT (job_id, name) DO UPDATE SET {+effect_kept}
    WHERE effect.generation = :seen::int
)
SELECT 1 FROM holder

-- name: reset_effect
WITH {+clock},
reset AS (
    UPDATE {effects}
    SET state = 'reset', generation = generation + 1, result = NULL, begun_at = NULL, done_at = NULL
    WHERE job_id = :job_id::id AND name = :name::text AND {+job_in_scope}
    RETURNING *
),
event AS (
    INSERT INTO {audit} ({+refused_columns}, detail)
    SELECT
        now, 'effect.reset', job_id, attempt, lease, whose.job_type, whose.org_id, whose.project_id, :actor_type::text,
        :actor_id::text, whose.request_id, whose.correlation_id, :detail::json
    FROM reset CROSS JOIN clock CROSS JOIN LATERAL {prefix}whose(job_id) AS whose
)
SELECT {+effect_columns} FROM reset
