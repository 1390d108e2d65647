-- fragment: of_only_org
-- For a client that is confined to an org, rows of another org, or of none, do not exist.
(:only_org::text IS NULL OR org_id = :only_org::text)

-- fragment: job_of_only_org
-- For rows that belong to a job and have no org of their own.
(:only_org::text IS NULL OR EXISTS (
    SELECT 1 FROM {live} AS job WHERE job.id = job_id AND job.org_id = :only_org::text
) OR EXISTS (
    SELECT 1 FROM {ended} AS job WHERE job.id = job_id AND job.org_id = :only_org::text
))

-- fragment: control_of_only_org
(:only_org::text IS NULL OR (:scope::text = 'org' AND :name::text = :only_org::text))
