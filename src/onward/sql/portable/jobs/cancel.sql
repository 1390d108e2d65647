-- fragment: cancellable
-- A running job whose cancellation was requested is not asked again, unless it was reset since then.
(cancel_requested_at IS NULL OR rerun_requested) AND (:after::text IS NULL OR id > :after::id) AND {+in_scope}

-- name: pick_jobs
SELECT {text(id)} FROM {live} AS live
WHERE {+in_range} AND {+narrowed} AND {+live_state} AND {+cancellable}
ORDER BY live.id
LIMIT :limit::int

-- name: pick_jobs_of_subject
SELECT {text(id)} FROM {live} AS live
WHERE subject = :subject::text AND {+cancellable}
ORDER BY live.id
LIMIT :limit::int

-- name: pick_jobs_of_batch
SELECT {text(id)} FROM {live} AS live
WHERE batch_id = :batch_id::id AND (flow & 2) <> 0 AND {+cancellable}
ORDER BY live.id
LIMIT :limit::int

-- name: pick_jobs_by_id
SELECT {text(id)} FROM {live} AS live
WHERE id IN (:ids::ids) AND {+cancellable}
ORDER BY live.id

-- name: find_dependents
-- The followers of these jobs, and the jobs that they have enqueued.
SELECT {text(job_id)} FROM {followers} WHERE parent_id IN (:ids::ids) AND {+of_only_org}
UNION
SELECT {text(id)} FROM {live} WHERE parent_id IN (:ids::ids) AND {+in_scope}
UNION
SELECT {text(id)} FROM {ended} WHERE parent_id IN (:ids::ids) AND {+in_scope}

-- name: note_cancel_request
INSERT INTO {audit} (at, event, job_id, job_type, org_id, project_id, actor_type, actor_id, detail)
SELECT
    :now::clock, 'jobs.cancel_requested', :job_id::id, :job_type::text, coalesce(:org_id::text, :only_org::text),
    :only_project::text,
    :actor_type::text, :actor_id::text, :detail::json
WHERE :only_org::text IS NULL OR :org_id::text IS NULL OR :org_id::text = :only_org::text
RETURNING event
