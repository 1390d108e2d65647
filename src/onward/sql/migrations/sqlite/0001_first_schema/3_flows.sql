-- Jobs that wait for others: followers and children, batches, signals.

-- Which job waits for which parent. A resolved edge stays, with the state in which the parent ended, for the parent's
-- result and for graphs. A row that is not `tied` is unknown to its parent, which was enqueued or had ended before;
-- a loop of the worker ties it.
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
-- Ends with pending follow-up work.
CREATE INDEX {prefix}ended_to_follow_up ON {ended} (id) WHERE flow > 0;
-- The children of a job: the jobs that its handler has enqueued.
CREATE INDEX {prefix}live_children ON {live} (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX {prefix}ended_children ON {ended} (parent_id, id) WHERE parent_id IS NOT NULL;

-- Jobs that are counted together, and the jobs that are enqueued when all of them have ended. An end is counted by its
-- follow-up work; all other jobs are counted in `live` when needed.
CREATE TABLE {batches} (
    id TEXT PRIMARY KEY NOT NULL,
    org_id TEXT,
    project_id TEXT,
    name TEXT,
    created_at INTEGER NOT NULL,
    closed_at INTEGER,
    cancelled_at INTEGER,
    ended_at INTEGER,
    succeeded INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    callbacks TEXT NOT NULL,
    actor_type TEXT,
    actor_id TEXT,
    correlation_id TEXT,
    parent_id TEXT
) WITHOUT ROWID;
CREATE INDEX {prefix}batches_of_org ON {batches} (org_id, id);
CREATE INDEX {prefix}live_batch ON {live} (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX {prefix}ended_batch ON {ended} (batch_id, id) WHERE batch_id IS NOT NULL;
-- Nearly always empty: ends that their batch has not counted yet.
CREATE INDEX {prefix}ended_uncounted ON {ended} (batch_id) WHERE flow > 0 AND batch_id IS NOT NULL;

-- Signals that were sent. Each is kept for a while, so that a job that begins to wait later sees it, too. '' stands
-- for no org, no project and no key; a signal without a project is for all projects of its org. A row is `fresh` until the jobs that wait for it were looked up.
CREATE TABLE {signals} (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    event TEXT NOT NULL,
    key TEXT NOT NULL,
    payload TEXT,
    at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    actor_type TEXT,
    actor_id TEXT,
    fresh INTEGER NOT NULL DEFAULT 1 CHECK (fresh IN (0, 1))
);
CREATE INDEX {prefix}signals_named ON {signals} (org_id, event, key, at);
CREATE INDEX {prefix}signals_expiring ON {signals} (expires_at);
CREATE INDEX {prefix}signals_fresh ON {signals} (at) WHERE fresh = 1;

-- Jobs that have left their slot until a signal comes. A row is valid while its job has this lease. `until` is when
-- the job is due without a signal; `seen` are the signals that it received before. A row is `fresh` until its signal
-- was looked up.
CREATE TABLE {awaited} (
    job_id TEXT PRIMARY KEY,
    lease INTEGER NOT NULL,
    org_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    event TEXT NOT NULL,
    key TEXT NOT NULL,
    until INTEGER NOT NULL,
    seen TEXT NOT NULL,
    fresh INTEGER NOT NULL DEFAULT 1 CHECK (fresh IN (0, 1))
);
CREATE INDEX {prefix}awaited_named ON {awaited} (org_id, event, key);
CREATE INDEX {prefix}awaited_fresh ON {awaited} (until) WHERE fresh = 1;
