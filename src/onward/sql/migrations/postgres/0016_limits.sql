-- What each limit allows, as workers declare it, and what an operator has set instead.
CREATE TABLE {limits} (
    name text COLLATE "C" PRIMARY KEY,
    declared jsonb NOT NULL CHECK (jsonb_typeof(declared) = 'object'),
    declared_at timestamptz NOT NULL,
    override jsonb CHECK (jsonb_typeof(override) = 'object'),
    set_at timestamptz,
    reason text,
    actor_type text,
    actor_id text
);

-- The time by which all that started at a rate is paid for. Without a row, or where that time is over, nothing is owed.
CREATE TABLE {slots} (
    limit_key text COLLATE "C" PRIMARY KEY,
    paid_at timestamptz NOT NULL CHECK (paid_at BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59.999999Z')
) WITH (fillfactor = 50);
CREATE INDEX slots_paid ON {slots} (paid_at);

-- Only of limited jobs: all others cost these nothing. Who holds a slot, who waits for one, and who will come back.
CREATE INDEX live_limited ON {live} (limit_key, state) WHERE limit_key IS NOT NULL AND state IN ('queued', 'running');
CREATE INDEX live_waiting ON {live} (limit_key, priority, run_at, id)
    WHERE limit_key IS NOT NULL AND state = 'blocked' AND pending = 0;
CREATE INDEX live_begun ON {live} (limit_key)
    WHERE limit_key IS NOT NULL AND lease > 0 AND state IN ('blocked', 'scheduled');

-- Whose slot the next run of a job needs that was reset while it ran.
ALTER TABLE {reruns} ADD COLUMN limit_key text COLLATE "C";
