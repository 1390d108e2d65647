-- fragment: end_columns
state, attempt, waits, crashes, error, result, outcome, ended_at

-- name: register_worker
-- An id is for one life of one process: taking over a lost one would revive the leases of its jobs.
INSERT INTO {workers} (id, info, started_at, seen_at, lease_until)
VALUES (:worker::text, :info::json, :now::clock, :now::clock, {later(:now::clock, :lease::int)})
ON CONFLICT (id) DO NOTHING
RETURNING id

-- name: retire_worker
-- From now on its running jobs are anyone's to rescue.
UPDATE {workers}
SET lease_until = :now::clock, lost_at = coalesce(lost_at, :now::clock), idle_since = NULL
WHERE id = :worker::text
RETURNING id
