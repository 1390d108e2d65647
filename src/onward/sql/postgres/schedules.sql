-- name: put_schedule
WITH made AS (
    {+schedule_put}
),
event AS (
    INSERT INTO {audit} (at, event, job_type, org_id, actor_type, actor_id, detail)
    SELECT
        {instant(:at::int)}, :event::text, :job_type::text, :org_id::text, :actor_type::text, :actor_id::text,
        :detail::json
    FROM made
    WHERE :event::text IS NOT NULL
)
SELECT * FROM made

-- name: lock_due_schedules
-- Locked until the due jobs are enqueued and the next occurrence is written: other workers skip these schedules.
SELECT {micros(:now::clock)}, {+schedule_columns} FROM {schedules}
WHERE next_at <= (SELECT :now::clock) AND {+may_fire}
ORDER BY next_at, name
LIMIT :limit::int
FOR UPDATE SKIP LOCKED

-- name: lock_schedule
SELECT {micros(:now::clock)}, {+schedule_columns} FROM {schedules}
WHERE name = :name::text AND removed_at IS NULL
FOR UPDATE

-- name: add_runs
INSERT INTO {schedule_runs} (schedule, occurrence, source, fired_at, late, job_id, outcome, error, ended_at)
SELECT
    schedule, {instant(occurrence)}, source, {instant(fired_at)}, late, job_id, outcome, error,
    CASE WHEN outcome IS NOT NULL THEN {instant(fired_at)} END
FROM :fired::rows(
    schedule text, occurrence bigint, source text, fired_at bigint, late smallint, job_id uuid, outcome text, error text
)
ORDER BY schedule, occurrence
ON CONFLICT DO NOTHING
RETURNING schedule, {micros(occurrence)}

-- name: move_schedules
UPDATE {schedules} AS schedule
SET next_at = {instant(moves.next_at)}, last_occurrence = coalesce({instant(moves.last_occurrence)}, schedule.last_occurrence)
FROM :moves::rows(name text, next_at bigint, last_occurrence bigint)
WHERE schedule.name = moves.name
RETURNING schedule.name

-- name: end_runs
UPDATE {schedule_runs} AS run
SET outcome = run_ends.outcome, error = run_ends.error, ended_at = {instant(run_ends.ended_at)}
FROM :run_ends::rows(job_id uuid, outcome text, error text, ended_at bigint)
WHERE run.job_id = run_ends.job_id
RETURNING run.schedule
