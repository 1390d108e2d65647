-- name: cancel_jobs
-- Locked first, so that each decision is about the newest version of the row.
WITH {+clock},
target AS MATERIALIZED (
    SELECT live.id, live.state, live.flow, live.limit_key FROM {live} AS live
    WHERE live.id IN (:ids::ids) AND {+in_scope}
    ORDER BY live.id
    FOR UPDATE
),
gone AS (
    DELETE FROM {live} AS live USING target WHERE live.id = target.id AND target.state <> 'running' RETURNING live.*
),
moved AS (
    INSERT INTO {ended} ({carried}, {+end_columns})
    SELECT {carried gone}, 'cancelled', attempt, waits, crashes, :error::json, NULL, 'cancelled', now FROM gone, clock
),
asked AS (
    -- Also withdraws the further run that a reset has requested.
    UPDATE {live} AS live SET cancel_requested_at = coalesce(cancel_requested_at, now), rerun_requested = false
    FROM target, clock
    WHERE live.id = target.id AND target.state = 'running'
        AND (live.cancel_requested_at IS NULL OR live.rerun_requested)
    RETURNING live.*
),
not_again AS (DELETE FROM {reruns} AS rerun USING asked WHERE rerun.job_id = asked.id),
event AS (
    INSERT INTO {audit} ({+audit_columns})
    SELECT
        now, event, id, job_type, org_id, project_id, :actor_type::text, :actor_id::text, request_id, correlation_id,
        attempt, lease, worker_id, :error::json
    FROM clock, (
        SELECT 'job.cancelled' AS event, * FROM gone UNION ALL SELECT 'job.cancel_requested' AS event, * FROM asked
    ) AS job
)
SELECT CAST(id AS text), CASE WHEN state = 'running' THEN 'running' ELSE 'cancelled' END,
    CASE WHEN state <> 'running' AND flow > 0 THEN 1 ELSE 0 END, CASE WHEN state = 'queued' THEN limit_key END
FROM target

-- name: set_control
-- A pause for the same reason is left as it is, with its actor and its time.
WITH {+clock},
made AS (
    INSERT INTO {controls} AS control (scope, name, set_at, actor_type, actor_id, reason)
    SELECT :scope::text, :name::text, now, :actor_type::text, :actor_id::text, :reason::text FROM clock
    WHERE {+control_of_only_org}
    ON CONFLICT (scope, name) DO UPDATE
    SET actor_type = excluded.actor_type, actor_id = excluded.actor_id, reason = excluded.reason
    WHERE control.reason <> excluded.reason
    RETURNING scope
),
{+control_event}
SELECT scope FROM made

-- name: lift_control
WITH {+clock},
made AS (
    DELETE FROM {controls} WHERE scope = :scope::text AND name = :name::text AND {+control_of_only_org} RETURNING scope
),
{+control_event}
SELECT scope FROM made

-- fragment: control_event
event AS (
    INSERT INTO {audit} (at, event, job_type, org_id, actor_type, actor_id, detail)
    SELECT
        now, :event::text, :job_type::text, :org_id::text, :actor_type::text, :actor_id::text, :detail::json
    FROM made, clock
)
