-- Who waits for whom. An edge stays when it is resolved, once, by the state in which the parent ended: for its result, and
-- for pictures. One that is not tied yet is known to no parent: its parent was enqueued or had ended before, and the
-- worker's loop sees to it.
CREATE TABLE {followers} (
    job_id TEXT NOT NULL,
    parent_id TEXT NOT NULL,
    org_id TEXT,
    needs TEXT NOT NULL CHECK (needs IN ('succeeded', 'ended')),
    on_failure TEXT NOT NULL CHECK (on_failure IN ('cancel', 'wait')),
    parent_state TEXT,
    tied INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (job_id, parent_id)
) WITHOUT ROWID;
CREATE INDEX {prefix}followers_parent ON {followers} (parent_id, job_id);
CREATE INDEX {prefix}followers_untied ON {followers} (job_id, parent_id) WHERE NOT tied;
-- The children of a job: what its handler has enqueued.
CREATE INDEX {prefix}live_children ON {live} (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX {prefix}ended_children ON {ended} (parent_id) WHERE parent_id IS NOT NULL;
