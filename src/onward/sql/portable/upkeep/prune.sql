-- name: read_clock
SELECT {micros(:now::clock)} FROM {settings} WHERE name = 'installation'

-- name: find_old_jobs
-- A job is enqueued before it ends, so old jobs are found by id, without an index that would cost every end.
SELECT {text(gone.id)}, gone.state, gone.category, gone.queue, {micros(gone.ended_at)}
FROM {ended} AS gone
WHERE gone.id > :after::id AND gone.id < :below::id
ORDER BY gone.id
LIMIT :limit::int

-- name: find_prunable_jobs
SELECT gone.state FROM {ended} AS gone WHERE {+prunable}

-- fragment: prunable
-- Not while follow-up work is pending, while the job's key is held, while a follower waits for it or may read its
-- result, nor while its batch counts it.
{+these_jobs} AND gone.id >= :first::id AND gone.id <= :last::id
AND gone.flow <= 0
AND NOT EXISTS (
    SELECT 1 FROM {keys} AS k
    WHERE k.org_id = coalesce(gone.org_id, '') AND k.project_id = coalesce(gone.project_id, '') AND k.key = gone.key
        AND k.job_id = gone.id AND k.expires_at > :now::clock
)
AND NOT EXISTS (
    SELECT 1 FROM {followers} AS edge JOIN {live} AS follower ON follower.id = edge.job_id
    WHERE edge.parent_id = gone.id
)
AND NOT EXISTS (SELECT 1 FROM {batches} AS batch WHERE batch.id = gone.batch_id AND batch.ended_at IS NULL)

-- name: find_lapsed_keys
SELECT key FROM {keys} AS k
WHERE {+lapsed} AND NOT EXISTS (SELECT 1 FROM {live} AS live WHERE live.id = k.job_id)

-- name: end_of_usage
-- Page by page, as for other tables without an index by time, which would cost every insert.
SELECT {text(job_id)}, lease, unit FROM (
    SELECT job_id, lease, unit FROM {usage}
    WHERE (job_id, lease, unit) > (:job_id::id, :lease::int, :unit::text) AND job_id < :below::id
    ORDER BY job_id, lease, unit
    LIMIT :limit::int
) AS page
ORDER BY job_id DESC, lease DESC, unit DESC
LIMIT 1

-- name: find_old_usage
SELECT unit FROM {usage} WHERE {+old_usage}

-- name: prune_old_usage
DELETE FROM {usage} WHERE {+old_usage}
RETURNING unit

-- fragment: old_usage
(job_id, lease, unit) > (:job_id::id, :lease::int, :unit::text)
AND (job_id, lease, unit) <= (:end_job::id, :end_lease::int, :end_unit::text) AND at < {instant(:before::int)}

-- name: end_of_workers
SELECT id FROM (SELECT id FROM {workers} WHERE id > :after::text ORDER BY id LIMIT :limit::int) AS page
ORDER BY id DESC
LIMIT 1

-- name: find_old_workers
SELECT id FROM {workers} WHERE {+old_workers}

-- name: prune_workers
DELETE FROM {workers} WHERE {+old_workers}
RETURNING id

-- fragment: old_workers
-- A worker that holds a job stays until the job is rescued.
id > :after::text AND id <= :upto::text AND lease_until < {instant(:before::int)}
AND NOT EXISTS (SELECT 1 FROM {live} AS live WHERE live.worker_id = {workers}.id AND live.state = 'running')

-- name: end_of_runs
SELECT {micros(fired_at)}, schedule, {micros(occurrence)}, source FROM (
    SELECT fired_at, schedule, occurrence, source FROM {schedule_runs}
    WHERE fired_at >= {instant(:fired_at::int)} AND fired_at < {instant(:before::int)}
        AND {+after_run}
    ORDER BY fired_at, schedule, occurrence, source
    LIMIT :limit::int
) AS page
ORDER BY fired_at DESC, schedule DESC, occurrence DESC, source DESC
LIMIT 1

-- name: find_old_runs
SELECT schedule FROM {schedule_runs} AS run WHERE {+old_runs}

-- name: prune_runs
DELETE FROM {schedule_runs} AS run WHERE {+old_runs}
RETURNING schedule

-- fragment: after_run
(fired_at, schedule, occurrence, source)
    > ({instant(:fired_at::int)}, :schedule::text, {instant(:occurrence::int)}, :source::text)

-- fragment: old_runs
-- The last runs of a schedule stay, whatever their age, so that a yearly schedule has a history, too.
fired_at >= {instant(:fired_at::int)} AND fired_at <= {instant(:end_fired::int)}
AND {+after_run}
AND (fired_at, schedule, occurrence, source)
    <= ({instant(:end_fired::int)}, :end_schedule::text, {instant(:end_occurrence::int)}, :end_source::text)
AND EXISTS (
    SELECT 1 FROM {schedule_runs} AS newer
    WHERE newer.schedule = run.schedule AND newer.occurrence > run.occurrence
    ORDER BY newer.occurrence
    LIMIT 1 OFFSET :last::int
)

-- name: end_of_batches
SELECT {text(id)} FROM (
    SELECT id FROM {batches} WHERE id > :after::id AND id < :below::id ORDER BY id LIMIT :limit::int
) AS page
ORDER BY id DESC
LIMIT 1

-- name: find_old_batches
SELECT {text(id)} FROM {batches} WHERE {+old_batches}

-- name: prune_batches
DELETE FROM {batches} WHERE {+old_batches}
RETURNING {text(id)}

-- fragment: old_batches
-- The batch stays as long as one of its jobs does, to describe what the job was part of.
id > :after::id AND id <= :upto::id AND ended_at < {instant(:before::int)}
AND NOT EXISTS (SELECT 1 FROM {ended} AS gone WHERE gone.batch_id = {batches}.id)
AND NOT EXISTS (SELECT 1 FROM {live} AS live WHERE live.batch_id = {batches}.id)

-- name: find_lapsed_signals
SELECT {text(id)} FROM {signals} WHERE expires_at <= :now::clock ORDER BY expires_at LIMIT :limit::int

-- name: read_place
SELECT value FROM {settings} WHERE name = 'prune_place'

-- name: keep_place
INSERT INTO {settings} (name, value) VALUES ('prune_place', :place::text)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
RETURNING name

-- name: find_expired_artifacts
SELECT {text(id)} FROM {artifacts} WHERE expires_at <= :now::clock ORDER BY expires_at LIMIT :limit::int

-- name: find_built_in_schedules
SELECT name, every_micros FROM {schedules} WHERE name IN (:names::texts) AND removed_at IS NULL
