-- fragment: of_only_org
-- For a client that is confined to an org, what is of another org, or of none, is not there.
(:only_org::text IS NULL OR org_id = :only_org::text)

-- fragment: job_of_only_org
-- For what belongs to a job and has no org of its own.
(:only_org::text IS NULL OR EXISTS (
    SELECT 1 FROM {live} AS job WHERE job.id = job_id AND job.org_id = :only_org::text
) OR EXISTS (
    SELECT 1 FROM {ended} AS job WHERE job.id = job_id AND job.org_id = :only_org::text
))

-- fragment: control_of_only_org
(:only_org::text IS NULL OR (:scope::text = 'org' AND :name::text = :only_org::text))
