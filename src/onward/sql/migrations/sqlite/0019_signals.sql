-- Signals that were sent, each kept for a while: whoever waits for its event and key within its org sees it, also who
-- comes later. Without an org, or a key: empty. `fresh`: nobody has looked yet who waits for it.
CREATE TABLE {signals} (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
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

-- Jobs that have left their slot until a signal comes. A row is true as long as its job still has this lease; `until`
-- is when the job is due without a signal, `seen` are the signals that it had before. `fresh`: nobody has looked yet
-- whether the signal is there.
CREATE TABLE {awaited} (
    job_id TEXT PRIMARY KEY,
    lease INTEGER NOT NULL,
    org_id TEXT NOT NULL,
    event TEXT NOT NULL,
    key TEXT NOT NULL,
    until INTEGER NOT NULL,
    seen TEXT NOT NULL,
    fresh INTEGER NOT NULL DEFAULT 1 CHECK (fresh IN (0, 1))
);
CREATE INDEX {prefix}awaited_named ON {awaited} (org_id, event, key);
CREATE INDEX {prefix}awaited_fresh ON {awaited} (until) WHERE fresh = 1;
