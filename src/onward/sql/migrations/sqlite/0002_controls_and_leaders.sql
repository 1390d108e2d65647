-- The closed gate and whatever is paused: a row stands while it holds. Nothing has used the old forms.
DROP TABLE {controls};
CREATE TABLE {controls} (
    scope TEXT NOT NULL CHECK (scope IN ('gate', 'queue', 'org', 'job_type')),
    name TEXT NOT NULL,
    set_at INTEGER NOT NULL,
    actor_type TEXT,
    actor_id TEXT,
    reason TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;
ALTER TABLE {queues} DROP COLUMN paused_at;
ALTER TABLE {queues} DROP COLUMN paused_by;
ALTER TABLE {queues} DROP COLUMN reason;

-- Who does what only one worker at a time should do; past `until` anyone may take its place.
CREATE TABLE {leaders} (
    name TEXT PRIMARY KEY NOT NULL,
    worker_id TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;

-- Most jobs succeed: an index that has only the others costs those nothing.
DROP INDEX {prefix}ended_by_state;
CREATE INDEX {prefix}ended_dead ON {ended} (id) WHERE state = 'dead';
CREATE INDEX {prefix}ended_cancelled ON {ended} (id) WHERE state = 'cancelled';
