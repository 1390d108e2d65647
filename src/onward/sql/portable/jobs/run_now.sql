-- name: advance_job
-- Only its time: workers move it as they move every job that has become due, with its limit and its wake-up.
UPDATE {live} SET run_at = CASE WHEN run_at > :now::clock THEN :now::clock ELSE run_at END
WHERE id = :id::id AND state = 'scheduled' AND {+in_scope}
    AND NOT EXISTS (SELECT 1 FROM {awaited} AS waits WHERE waits.job_id = :id::id)
RETURNING {text(id)}

-- name: note_run_now
INSERT INTO {audit} (at, event, job_id, job_type, org_id, project_id, actor_type, actor_id, detail)
SELECT :now::clock, 'job.run_now', id, job_type, org_id, project_id, :actor_type::text, :actor_id::text, :detail::json
FROM {live} WHERE id = :id::id AND {+in_scope}
RETURNING event
