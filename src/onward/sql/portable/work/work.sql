-- fragment: end_columns
state, attempt, waits, crashes, error, result, outcome, ended_at

-- name: register_worker
-- An id is for one run of one process: taking over a lost id would revive the leases of its jobs.
INSERT INTO {workers} (id, org_id, project_id, info, started_at, seen_at, lease_until)
VALUES (:worker::text, :only_org::text, :only_project::text, :info::json, :now::clock, :now::clock, {later(:now::clock, :lease::int)})
ON CONFLICT (id) DO NOTHING
RETURNING id

-- name: retire_worker
-- From now on its running jobs can be rescued. The clock is read once: equal instants distinguish a worker that
-- retired from one that fell silent.
UPDATE {workers}
SET lease_until = said.now, lost_at = said.now, idle_since = NULL
FROM (SELECT :now::clock AS now) AS said
WHERE id = :worker::text AND {+in_scope}
RETURNING id, org_id, project_id

-- name: find_ending_jobs
SELECT {job_columns live} FROM {live} AS live WHERE id IN (:ids::ids) AND {+in_scope}

-- name: find_in_scope
SELECT {text(live.id)} FROM {live} AS live WHERE id IN (:ids::ids) AND {+in_scope}
UNION ALL
SELECT {text(ended.id)} FROM {ended} AS ended WHERE id IN (:ids::ids) AND {+in_scope}

-- name: take_write_lock
-- Deletes nothing. On SQLite it makes a transaction that is about to read the writer: a reader that becomes a writer
-- later is refused if another connection has written since.
DELETE FROM {live} WHERE false
RETURNING id
