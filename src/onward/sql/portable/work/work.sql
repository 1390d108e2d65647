-- fragment: end_columns
state, attempt, waits, crashes, error, result, outcome, ended_at

-- name: register_worker
-- An id is for one life of one process: taking over a lost one would revive the leases of its jobs.
INSERT INTO {workers} (id, info, started_at, seen_at, lease_until)
VALUES (:worker::text, :info::json, :now::clock, :now::clock, {later(:now::clock, :lease::int)})
ON CONFLICT (id) DO NOTHING
RETURNING id

-- name: retire_worker
-- From now on its running jobs are anyone's to rescue. One reading of the clock: that both are the same instant tells
-- who retired from who fell silent.
UPDATE {workers}
SET lease_until = said.now, lost_at = said.now, idle_since = NULL
FROM (SELECT :now::clock AS now) AS said
WHERE id = :worker::text
RETURNING id

-- name: take_write_lock
-- Nothing is deleted. On SQLite it makes a transaction that may have read the writer: a writer that was a reader
-- first is refused where another has written since.
DELETE FROM {live} WHERE false
RETURNING id
