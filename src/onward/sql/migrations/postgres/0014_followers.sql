-- Who waits for whom. An edge stays when it is resolved, once, by the state in which the parent ended: for its result, and
-- for pictures. One that is not tied yet is known to no parent: its parent was enqueued or had ended before, and the
-- worker's loop sees to it.
CREATE TABLE {followers} (
    job_id uuid NOT NULL,
    parent_id uuid NOT NULL,
    org_id text COLLATE "C",
    needs text COLLATE "C" NOT NULL CHECK (needs IN ('succeeded', 'ended')),
    on_failure text COLLATE "C" NOT NULL CHECK (on_failure IN ('cancel', 'wait')),
    parent_state text COLLATE "C",
    tied boolean NOT NULL DEFAULT true,
    PRIMARY KEY (job_id, parent_id)
);
CREATE INDEX followers_parent ON {followers} (parent_id, job_id);
CREATE INDEX followers_untied ON {followers} (job_id, parent_id) WHERE NOT tied;
-- The children of a job: what its handler has enqueued.
CREATE INDEX live_children ON {live} (parent_id) WHERE parent_id IS NOT NULL;
