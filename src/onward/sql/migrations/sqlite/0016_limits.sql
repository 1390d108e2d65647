-- What each limit allows, as workers declare it, and what an operator has set instead.
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

-- The time by which all that started at a rate is paid for. Without a row, or where that time is over, nothing is owed.
CREATE TABLE {slots} (
    limit_key TEXT PRIMARY KEY NOT NULL,
    paid_at INTEGER NOT NULL CHECK (paid_at BETWEEN 0 AND 253402300799999999)
) WITHOUT ROWID;
CREATE INDEX {prefix}slots_paid ON {slots} (paid_at);

-- Only of limited jobs: all others cost these nothing. Who holds a slot, who waits for one, and who will come back.
CREATE INDEX {prefix}live_limited ON {live} (limit_key, state)
    WHERE limit_key IS NOT NULL AND state IN ('queued', 'running');
CREATE INDEX {prefix}live_waiting ON {live} (limit_key, priority, run_at, id)
    WHERE limit_key IS NOT NULL AND state = 'blocked' AND pending = 0;
CREATE INDEX {prefix}live_begun ON {live} (limit_key)
    WHERE limit_key IS NOT NULL AND lease > 0 AND state IN ('blocked', 'scheduled');

-- Whose slot the next run of a job needs that was reset while it ran.
ALTER TABLE {reruns} ADD COLUMN limit_key TEXT;
