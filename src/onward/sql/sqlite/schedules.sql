-- name: put_schedule
INSERT INTO {audit} (at, event, job_type, org_id, actor_type, actor_id, detail)
SELECT :at, :event, :job_type, :org_id, :actor_type, :actor_id, :detail
WHERE :event IS NOT NULL AND coalesce((SELECT version FROM {schedules} WHERE name = :name), :version) = :version;
{+schedule_put}

-- name: lock_due_schedules
SELECT :now, {+schedule_columns} FROM {schedules}
WHERE next_at <= :now AND {+may_fire}
ORDER BY next_at, name
LIMIT :limit

-- name: lock_schedule
SELECT :now, {+schedule_columns} FROM {schedules} WHERE name = :name AND removed_at IS NULL

-- name: add_runs
-- each fired
INSERT INTO {schedule_runs} (schedule, occurrence, source, fired_at, late, job_id, outcome, error, ended_at)
VALUES (
    :fired.schedule, :fired.occurrence, :fired.source, :fired.fired_at, :fired.late, :fired.job_id, :fired.outcome,
    :fired.error, CASE WHEN :fired.outcome IS NOT NULL THEN :fired.fired_at END
)
ON CONFLICT DO NOTHING
RETURNING schedule, occurrence

-- name: move_schedules
-- each moves
UPDATE {schedules} SET next_at = :moves.next_at, last_occurrence = coalesce(:moves.last_occurrence, last_occurrence)
WHERE name = :moves.name
RETURNING name

-- name: end_runs
-- each run_ends
UPDATE {schedule_runs}
SET outcome = :run_ends.outcome, error = :run_ends.error, ended_at = :run_ends.ended_at
WHERE job_id = :run_ends.job_id
RETURNING schedule
