-- name: get_jobs
SELECT {job_columns live} FROM {live} AS live WHERE id IN (:ids::ids) AND {+in_scope}
UNION ALL
SELECT {job_columns ended} FROM {ended} AS ended WHERE id IN (:ids::ids) AND {+in_scope}

-- name: list_jobs
-- Each table is read newest first by its primary key, and only as far as the page goes.
SELECT * FROM (SELECT {job_columns live} FROM {live} AS live WHERE {+listed_live}) AS waiting_or_running
UNION ALL
SELECT * FROM (SELECT {job_columns ended} FROM {ended} AS ended WHERE {+listed_ended}) AS finished
ORDER BY 1 DESC
LIMIT :limit::int

-- name: list_jobs_of_subject
-- Separate from list_jobs, because SQLite uses no index for a parameter that may be null.
SELECT * FROM (
    SELECT {job_columns live} FROM {live} AS live WHERE subject = :subject::text AND {+listed_live}
) AS waiting_or_running
UNION ALL
SELECT * FROM (
    SELECT {job_columns ended} FROM {ended} AS ended WHERE subject = :subject::text AND {+listed_ended}
) AS finished
ORDER BY 1 DESC
LIMIT :limit::int

-- fragment: listed_live
{+narrowed} AND :outcome::text IS NULL AND :unresolved::int IS NULL
AND (:retrying::int IS NULL OR attempt > 0)
AND (:stuck::int IS NULL OR NOT EXISTS (
    SELECT 1 FROM {workers} AS w
    WHERE w.id = live.worker_id AND w.lost_at IS NULL AND w.lease_until > :now::clock
))
ORDER BY live.id DESC
LIMIT :limit::int

-- fragment: listed_ended
{+narrowed} AND (:outcome::text IS NULL OR outcome = :outcome::text)
AND :retrying::int IS NULL AND :stuck::int IS NULL
AND (:unresolved::int IS NULL OR (state = 'dead' AND NOT EXISTS (
    SELECT 1 FROM {dead_letters} AS letter WHERE letter.job_id = ended.id AND letter.lease = ended.lease
)))
ORDER BY ended.id DESC
LIMIT :limit::int

-- fragment: narrowed
{+in_scope}
AND (:state::text IS NULL OR state = :state::text)
AND (:job_type::text IS NULL OR job_type = :job_type::text)
AND (:queue::text IS NULL OR queue = :queue::text)
AND (:org_id::text IS NULL OR org_id = :org_id::text)
AND (:project_id::text IS NULL OR project_id = :project_id::text)
AND (:key::text IS NULL OR key = :key::text)
AND (:subject::text IS NULL OR subject = :subject::text)
AND (:correlation_id::text IS NULL OR correlation_id = :correlation_id::text)
AND (:above::text IS NULL OR id >= :above::id)
AND (:below::text IS NULL OR id < :below::id)

-- name: count_jobs
-- Live jobs are all counted; ended ones only up to a cap, because there may be any number of them.
SELECT queue, state, count(*) FROM {live}
WHERE {+in_scope}
GROUP BY queue, state
UNION ALL
SELECT NULL, 'succeeded', count(*) FROM (
    SELECT 1 FROM {ended}
    WHERE state = 'succeeded' AND {+in_scope}
    LIMIT :cap::int
) AS succeeded
UNION ALL
SELECT NULL, 'dead', count(*) FROM (
    SELECT 1 FROM {ended}
    WHERE state = 'dead' AND {+in_scope}
    LIMIT :cap::int
) AS dead
UNION ALL
SELECT NULL, 'cancelled', count(*) FROM (
    SELECT 1 FROM {ended}
    WHERE state = 'cancelled' AND {+in_scope}
    LIMIT :cap::int
) AS cancelled
UNION ALL
SELECT 'q:deadletter', 'dead', count(*) FROM (
    SELECT 1 FROM {ended} AS gone
    WHERE state = 'dead' AND {+in_scope} AND {+unresolved}
    LIMIT :cap::int
) AS unresolved

-- name: list_attempts
SELECT lease, attempt, worker_id, {micros(started_at)}, {micros(ended_at)}, outcome, {text(error)}, cost_micros
FROM {attempts}
WHERE job_id = :id::id AND lease > :after::int AND {+job_in_scope}
ORDER BY lease
LIMIT :limit::int

-- name: sum_attempts
SELECT max(lease), CAST(sum(cost_micros) AS bigint) FROM {attempts} WHERE job_id = :id::id AND {+job_in_scope}
