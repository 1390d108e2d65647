-- What holds jobs back: limits and their permits, the policies of queues, the gate and the pauses.

-- What each limit allows: as workers declare it, and what an operator has set instead.
CREATE TABLE {limits} (
    name TEXT PRIMARY KEY NOT NULL,
    declared TEXT NOT NULL CHECK (json_valid(declared) AND json_type(declared) = 'object'),
    declared_at INTEGER NOT NULL,
    override TEXT CHECK (override IS NULL OR (json_valid(override) AND json_type(override) = 'object')),
    set_at INTEGER,
    reason TEXT,
    actor_type TEXT,
    actor_id TEXT
) WITHOUT ROWID;

-- The time until which the starts of a rate are paid for. Without a row, or after that time, nothing is owed.
CREATE TABLE {permits} (
    limit_key TEXT PRIMARY KEY NOT NULL,
    paid_at INTEGER NOT NULL CHECK (paid_at BETWEEN 0 AND 253402300799999999)
) WITHOUT ROWID;
CREATE INDEX {prefix}permits_paid ON {permits} (paid_at);
-- The jobs that hold a permit, that wait for one, and that will need theirs again. Other jobs cost these nothing.
CREATE INDEX {prefix}live_limited ON {live} (limit_key, state)
    WHERE limit_key IS NOT NULL AND state IN ('queued', 'running');
CREATE INDEX {prefix}live_waiting ON {live} (limit_key, priority, run_at, id)
    WHERE limit_key IS NOT NULL AND state = 'blocked' AND pending = 0;
CREATE INDEX {prefix}live_begun ON {live} (limit_key)
    WHERE limit_key IS NOT NULL AND lease > 0 AND state IN ('blocked', 'scheduled');

-- What an application declares of a queue (`settings`), what an operator set instead (`override`), until when the jobs
-- that its rate let start are paid for, and which org's turn it is.
CREATE TABLE {queues} (
    name TEXT PRIMARY KEY NOT NULL,
    settings TEXT NOT NULL DEFAULT '{}',
    override TEXT,
    set_at INTEGER,
    reason TEXT,
    actor_type TEXT,
    actor_id TEXT,
    paid_at INTEGER,
    turn TEXT
);
-- From org to org with one probe each. Only jobs of fair queues are in it.
CREATE INDEX {prefix}live_fair ON {live} (queue, org_id, priority, run_at, id) WHERE state = 'queued' AND fair = 1;

-- The closed gate, the pauses and the skipped job types: a row exists while it is in effect.
CREATE TABLE {controls} (
    scope TEXT NOT NULL CHECK (scope IN ('gate', 'queue', 'org', 'job_type', 'skip')),
    name TEXT NOT NULL,
    set_at INTEGER NOT NULL,
    actor_type TEXT,
    actor_id TEXT,
    reason TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;
