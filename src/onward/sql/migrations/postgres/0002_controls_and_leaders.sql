-- The closed gate and whatever is paused: a row stands while it holds. Nothing has used the old forms.
DROP TABLE {controls};
CREATE TABLE {controls} (
    scope text COLLATE "C" NOT NULL CHECK (scope IN ('gate', 'queue', 'org', 'job_type')),
    name text COLLATE "C" NOT NULL,
    set_at timestamptz NOT NULL,
    actor_type text,
    actor_id text,
    reason text NOT NULL,
    PRIMARY KEY (scope, name)
);
ALTER TABLE {queues} DROP COLUMN paused_at, DROP COLUMN paused_by, DROP COLUMN reason;

-- Who does what only one worker at a time should do; past `until` anyone may take its place.
CREATE TABLE {leaders} (
    name text COLLATE "C" PRIMARY KEY,
    worker_id text COLLATE "C" NOT NULL,
    until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Most jobs succeed: an index that has only the others costs those nothing.
DROP INDEX {prefix}ended_by_state;
CREATE INDEX ended_dead ON {ended} (id) WHERE state = 'dead';
CREATE INDEX ended_cancelled ON {ended} (id) WHERE state = 'cancelled';
