-- name: find_held_jobs
SELECT {job_columns live} FROM {live} AS live
WHERE live.worker_id = :worker::text AND live.state = 'running'
LIMIT :limit::int
