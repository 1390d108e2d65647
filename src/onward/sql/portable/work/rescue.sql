-- name: list_running_jobs
SELECT {job_columns live} FROM {live} AS live
WHERE live.worker_id = :worker::text AND live.state = 'running' AND live.id > :after::id
ORDER BY live.id
LIMIT :limit::int

-- name: find_held_jobs
SELECT {job_columns live} FROM {live} AS live
WHERE live.worker_id = :worker::text AND live.state = 'running'
LIMIT :limit::int
