-- fragment: in_scope
-- For a client that is confined, rows of another org or project, or of none, do not exist.
(:only_org::text IS NULL OR org_id = :only_org::text)
AND (:only_project::text IS NULL OR project_id = :only_project::text)

-- fragment: is_confined
(:only_org::text IS NOT NULL OR :only_project::text IS NOT NULL)

-- fragment: of_only_org
-- For tables whose rows have no project: those of their jobs decide.
(:only_org::text IS NULL OR org_id = :only_org::text)

-- fragment: given_in_scope
-- The same of a row that is about to be written.
(:only_org::text IS NULL OR :org_id::text = :only_org::text)
AND (:only_project::text IS NULL OR :project_id::text = :only_project::text)

-- fragment: job_in_scope
-- For rows that belong to a job and have no org of their own.
((:only_org::text IS NULL AND :only_project::text IS NULL) OR EXISTS (
    SELECT 1 FROM {live} AS job WHERE job.id = job_id AND {scope(job)}
) OR EXISTS (
    SELECT 1 FROM {ended} AS job WHERE job.id = job_id AND {scope(job)}
))

-- fragment: control_of_only_org
(:only_project::text IS NULL AND (
    :only_org::text IS NULL OR (:scope::text = 'org' AND :name::text = :only_org::text)
))
