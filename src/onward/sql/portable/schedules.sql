-- fragment: schedule_columns
-- Without the table's name, which SQLite does not know in the RETURNING of an insert.
name, version, source, org_id, job_type, job, cron, every_micros, tz, {micros(anchor)}, jitter_micros, missed, overlap,
warm_up_micros, {micros(next_at)}, {micros(last_occurrence)}, {micros(created_at)}, {micros(changed_at)}, {micros(paused_at)},
pause_reason, paused_by_type, paused_by_id, {micros(removed_at)}

-- fragment: run_columns
schedule, {micros(occurrence)}, source, {micros(fired_at)}, late, {text(job_id)}, outcome, error, {micros(ended_at)}

-- name: list_schedules
SELECT {+schedule_columns} FROM {schedules}
WHERE removed_at IS NULL AND name > :after::text
ORDER BY name
LIMIT :limit::int

-- name: get_schedule
-- One row even for a schedule that does not exist, because the caller always needs the time.
SELECT {micros(:now::clock)}, {+schedule_columns}
FROM (SELECT :name::text AS asked) AS question LEFT JOIN {schedules} AS schedule ON schedule.name = question.asked

-- name: last_runs
SELECT {+run_columns} FROM {schedule_runs} AS run
WHERE run.schedule IN (:names::texts) AND run.occurrence = (
    SELECT newest.occurrence FROM {schedule_runs} AS newest
    WHERE newest.schedule = run.schedule
    ORDER BY newest.occurrence DESC
    LIMIT 1
)
ORDER BY run.fired_at

-- name: list_runs_of
SELECT {+run_columns} FROM {schedule_runs}
WHERE schedule = :name::text AND (occurrence, source) < ({instant(:occurrence::int)}, :source::text)
ORDER BY occurrence DESC, source DESC
LIMIT :limit::int

-- name: list_runs
SELECT {+run_columns} FROM {schedule_runs}
WHERE (fired_at, schedule, occurrence, source)
    < ({instant(:fired_at::int)}, :schedule::text, {instant(:occurrence::int)}, :source::text)
ORDER BY fired_at DESC, schedule DESC, occurrence DESC, source DESC
LIMIT :limit::int

-- fragment: schedule_put
-- Guarded by the version that was read: of two writers that read the same version, the second changes nothing and
-- reads again. A firing worker moves `next_at` without a new version, so `next_at` is written only for new times.
INSERT INTO {schedules} AS schedule (
    name, version, source, org_id, job_type, job, cron, every_micros, tz, anchor, jitter_micros, missed, overlap,
    warm_up_micros, next_at, created_at, changed_at, paused_at, pause_reason, paused_by_type, paused_by_id, removed_at
)
VALUES (
    :name::text, :version::int + 1, :source::text, :org_id::text, :job_type::text, :job::text, :cron::text,
    :every::int, :tz::text, {instant(:anchor::int)}, :jitter::int, :missed::text, :overlap::text, :warm_up::int,
    {instant(:next_at::int)}, {instant(:at::int)}, {instant(:at::int)}, {instant(:paused_at::int)},
    :pause_reason::text,
    CASE WHEN :event::text = 'schedule.paused' THEN :actor_type::text ELSE :paused_by_type::text END,
    CASE WHEN :event::text = 'schedule.paused' THEN :actor_id::text ELSE :paused_by_id::text END,
    {instant(:removed_at::int)}
)
ON CONFLICT (name) DO UPDATE
SET version = excluded.version, source = excluded.source, org_id = excluded.org_id, job_type = excluded.job_type,
    job = excluded.job, cron = excluded.cron, every_micros = excluded.every_micros, tz = excluded.tz,
    anchor = excluded.anchor, jitter_micros = excluded.jitter_micros, missed = excluded.missed,
    overlap = excluded.overlap, warm_up_micros = excluded.warm_up_micros,
    next_at = coalesce(excluded.next_at, schedule.next_at), changed_at = excluded.changed_at,
    paused_at = excluded.paused_at, pause_reason = excluded.pause_reason,
    paused_by_type = excluded.paused_by_type, paused_by_id = excluded.paused_by_id,
    removed_at = excluded.removed_at
WHERE schedule.version = :version::int
RETURNING {+schedule_columns}

-- fragment: may_fire
-- A schedule from code is fired by workers that define it, any other by workers that know its job type; none before
-- the worker has been up for the schedule's warm-up.
paused_at IS NULL AND removed_at IS NULL AND warm_up_micros <= :up::int
AND (source = 'code' AND name IN (:own::texts) OR source = 'database' AND job_type IN (:types::texts))

-- name: find_open_runs
-- By the jobs themselves, because the history records an end a moment later.
SELECT run.schedule, {text(run.job_id)}, live.org_id
FROM {schedule_runs} AS run JOIN {live} AS live ON live.id = run.job_id
WHERE run.schedule IN (:names::texts) AND run.ended_at IS NULL
ORDER BY run.fired_at, run.occurrence

-- name: find_troubled_schedules
-- Overdue schedules, and those whose last run was late, was refused or has failed.
SELECT
    name, job_type, schedule.source, {micros(next_at)}, warm_up_micros, {micros(run.occurrence)}, {micros(run.fired_at)}, run.late,
    run.outcome, run.error, {text(run.job_id)}
FROM {schedules} AS schedule LEFT JOIN {schedule_runs} AS run
    ON run.schedule = schedule.name AND run.source = 'occurrence' AND run.occurrence = schedule.last_occurrence
WHERE removed_at IS NULL AND paused_at IS NULL
    AND (
        next_at < {instant(:before::int)}
        OR run.outcome IN ('dead', 'refused')
        OR run.late = 1 AND run.fired_at > {instant(:recent::int)}
    )
ORDER BY name
LIMIT :limit::int

-- name: note_schedule
INSERT INTO {audit} (at, event, job_type, org_id, actor_type, actor_id, detail)
VALUES (
    :now::clock, :event::text, :job_type::text, :org_id::text, :actor_type::text, :actor_id::text, :detail::json
)
RETURNING seq
