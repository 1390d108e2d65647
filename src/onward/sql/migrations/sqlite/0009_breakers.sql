-- Providers that have pushed back, and what is held because of it. A provider that never did has no row. Whoever
-- changes one raises its version, and only if it is still the one that was read.
CREATE TABLE {breakers} (
    name TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('closed', 'open')),
    failures INTEGER NOT NULL DEFAULT 0,
    counted_from INTEGER,
    opened_at INTEGER,
    until INTEGER,
    holds INTEGER NOT NULL DEFAULT 0,
    turn TEXT,
    turn_until INTEGER,
    forced INTEGER NOT NULL DEFAULT 0 CHECK (forced IN (0, 1)),
    reason TEXT,
    actor_type TEXT,
    actor_id TEXT
) WITHOUT ROWID;
-- Every worker asks for these twice a second, and most providers are not among them.
CREATE INDEX {prefix}breakers_suspect ON {breakers} (name) WHERE state = 'open' OR failures > 0;
