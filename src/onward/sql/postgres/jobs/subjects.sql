-- name: delete_jobs
-- A running job is left alone, because its worker holds it.
WITH {+clock},
places AS MATERIALIZED (
    SELECT coalesce(org_id, '') AS org_id, coalesce(project_id, '') AS project_id, key
    FROM {jobs} WHERE id IN (:ids::ids) AND key IS NOT NULL
),
locked AS MATERIALIZED (
    -- Keys first, then jobs, as everywhere: else a reset and a deletion would wait for each other.
    SELECT k.key FROM places JOIN {keys} AS k
        ON k.org_id = places.org_id AND k.project_id = places.project_id AND k.key = places.key
    ORDER BY k.org_id, k.project_id, k.key
    FOR UPDATE OF k
),
target AS MATERIALIZED (
    SELECT live.id FROM {live} AS live
    WHERE live.id IN (:ids::ids) AND live.state <> 'running' AND {scope(live)} AND (SELECT count(*) FROM locked) >= 0
    ORDER BY live.id
    FOR UPDATE
),
waiting AS (
    DELETE FROM {live} AS live USING target WHERE live.id = target.id RETURNING {carried live}
),
finished AS (
    DELETE FROM {ended} AS ended
    WHERE ended.id IN (:ids::ids) AND {scope(ended)}
    RETURNING {carried ended}
),
gone AS MATERIALIZED (SELECT * FROM waiting UNION ALL SELECT * FROM finished),
runs AS (DELETE FROM {attempts} AS past USING gone WHERE past.job_id = gone.id),
letters AS (DELETE FROM {dead_letters} AS letter USING gone WHERE letter.job_id = gone.id),
done AS (DELETE FROM {effects} AS effect USING gone WHERE effect.job_id = gone.id),
freed AS (
    DELETE FROM {keys} AS k USING gone
    WHERE k.org_id = coalesce(gone.org_id, '') AND k.project_id = coalesce(gone.project_id, '') AND k.key = gone.key
        AND k.job_id = gone.id
),
event AS (
    INSERT INTO {audit} (
        at, event, job_id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, lease, detail
    )
    SELECT
        now, 'job.deleted', id, job_type, org_id, project_id, :actor_type::text, :actor_id::text, request_id,
        correlation_id, lease, :detail::json
    FROM gone, clock
)
SELECT CAST(id AS text) FROM gone
