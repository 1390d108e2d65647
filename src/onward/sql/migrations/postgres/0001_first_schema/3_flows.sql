-- Jobs that wait for others: followers and children, batches, signals.

-- Which job waits for which parent. A resolved edge stays, with the state in which the parent ended, for the parent's
-- result and for graphs. A row that is not `tied` is unknown to its parent, which was enqueued or had ended before;
-- a loop of the worker ties it.
CREATE TABLE {followers} (
    job_id uuid NOT NULL,
    parent_id uuid NOT NULL,
    org_id text COLLATE "C",
    needs text COLLATE "C" NOT NULL CHECK (needs IN ('succeeded', 'ended')),
    on_failure text COLLATE "C" NOT NULL CHECK (on_failure IN ('cancel', 'wait')),
    parent_state text COLLATE "C",
    tied boolean NOT NULL DEFAULT true,
    PRIMARY KEY (job_id, parent_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX followers_parent ON {followers} (parent_id, job_id);
CREATE INDEX followers_untied ON {followers} (job_id, parent_id) WHERE NOT tied;
-- Ends with pending follow-up work.
CREATE INDEX ended_to_follow_up ON {ended} (id) WHERE flow > 0;
-- The children of a job: the jobs that its handler has enqueued.
CREATE INDEX live_children ON {live} (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX ended_children ON {ended} (parent_id, id) WHERE parent_id IS NOT NULL;

-- Jobs that are counted together, and the jobs that are enqueued when all of them have ended. An end is counted by its
-- follow-up work; all other jobs are counted in `live` when needed, so that adding a job locks no count.
CREATE TABLE {batches} (
    id uuid PRIMARY KEY,
    org_id text COLLATE "C",
    project_id text COLLATE "C",
    name text,
    created_at timestamptz NOT NULL,
    closed_at timestamptz,
    cancelled_at timestamptz,
    ended_at timestamptz,
    succeeded integer NOT NULL DEFAULT 0,
    dead integer NOT NULL DEFAULT 0,
    cancelled integer NOT NULL DEFAULT 0,
    callbacks jsonb NOT NULL,
    actor_type text,
    actor_id text,
    correlation_id text,
    parent_id uuid
) WITH (fillfactor = 50);
CREATE INDEX batches_of_org ON {batches} (org_id, id);
CREATE INDEX live_batch ON {live} (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX ended_batch ON {ended} (batch_id, id) WHERE batch_id IS NOT NULL;
-- Nearly always empty: ends that their batch has not counted yet.
CREATE INDEX ended_uncounted ON {ended} (batch_id) WHERE flow > 0 AND batch_id IS NOT NULL;

-- Signals that were sent. Each is kept for a while, so that a job that begins to wait later sees it, too. '' stands
-- for no org, no project and no key; a signal without a project is for all projects of its org. A row is `fresh` until the jobs that wait for it were looked up.
CREATE TABLE {signals} (
    id uuid PRIMARY KEY,
    org_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    event text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    payload jsonb,
    at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    actor_type text,
    actor_id text,
    fresh smallint NOT NULL DEFAULT 1 CHECK (fresh IN (0, 1))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX signals_named ON {signals} (org_id, event, key, at);
CREATE INDEX signals_expiring ON {signals} (expires_at);
CREATE INDEX signals_fresh ON {signals} (at) WHERE fresh = 1;

-- Jobs that have left their slot until a signal comes. A row is valid while its job has this lease. `until` is when
-- the job is due without a signal; `seen` are the signals that it received before. A row is `fresh` until its signal
-- was looked up. A signal and a job may miss each other, because neither was committed when the other looked: the one
-- that is committed last is still fresh then, and a later look at the fresh rows finds the pair.
CREATE TABLE {awaited} (
    job_id uuid PRIMARY KEY,
    lease bigint NOT NULL,
    org_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    event text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    until timestamptz NOT NULL,
    seen jsonb NOT NULL,
    fresh smallint NOT NULL DEFAULT 1 CHECK (fresh IN (0, 1))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX awaited_named ON {awaited} (org_id, event, key);
CREATE INDEX awaited_fresh ON {awaited} (until) WHERE fresh = 1;
