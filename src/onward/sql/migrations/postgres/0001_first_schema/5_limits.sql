-- What holds jobs back: limits and their permits, the policies of queues, the gate and the pauses.

-- What each limit allows: as workers declare it, and what an operator has set instead.
CREATE TABLE {limits} (
    name text COLLATE "C" PRIMARY KEY,
    declared jsonb NOT NULL CHECK (jsonb_typeof(declared) = 'object'),
    declared_at timestamptz NOT NULL,
    override jsonb CHECK (jsonb_typeof(override) = 'object'),
    set_at timestamptz,
    reason text,
    actor_type text,
    actor_id text
) WITH (
    autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 200
);

-- The time until which the starts of a rate are paid for. Without a row, or after that time, nothing is owed.
CREATE TABLE {permits} (
    limit_key text COLLATE "C" PRIMARY KEY,
    paid_at timestamptz NOT NULL CHECK (paid_at BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59.999999Z')
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 200
);
CREATE INDEX permits_paid ON {permits} (paid_at);
-- The jobs that hold a permit, that wait for one, and that will need theirs again. Other jobs cost these nothing.
CREATE INDEX live_limited ON {live} (limit_key, state) WHERE limit_key IS NOT NULL AND state IN ('queued', 'running');
CREATE INDEX live_waiting ON {live} (limit_key, priority, run_at, id)
    WHERE limit_key IS NOT NULL AND state = 'blocked' AND pending = 0;
CREATE INDEX live_begun ON {live} (limit_key)
    WHERE limit_key IS NOT NULL AND lease > 0 AND state IN ('blocked', 'scheduled');

-- What an application declares of a queue (`settings`), what an operator set instead (`override`), until when the jobs
-- that its rate let start are paid for, and which org's turn it is. Each claim of a queue with a rate or with turns
-- updates its row, so half-empty pages keep the new version beside the old one.
CREATE TABLE {queues} (
    name text PRIMARY KEY,
    settings jsonb NOT NULL DEFAULT '{}',
    override jsonb,
    set_at timestamptz,
    reason text,
    actor_type text,
    actor_id text,
    paid_at bigint,
    turn text
) WITH (fillfactor = 50);
-- From org to org with one probe each. Only jobs of fair queues are in it.
CREATE INDEX live_fair ON {live} (queue, org_id COLLATE "C", priority, run_at, id) WHERE state = 'queued' AND fair;

-- The closed gate, the pauses and the skipped job types: a row exists while it is in effect.
CREATE TABLE {controls} (
    scope text COLLATE "C" NOT NULL CHECK (scope IN ('gate', 'queue', 'org', 'job_type', 'skip')),
    name text COLLATE "C" NOT NULL,
    set_at timestamptz NOT NULL,
    actor_type text,
    actor_id text,
    reason text NOT NULL,
    PRIMARY KEY (scope, name)
);
