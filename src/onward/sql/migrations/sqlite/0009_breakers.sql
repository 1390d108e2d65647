-- Providers that have pushed back, and what is held because of it. A provider that never did has no row. Whoever
-- changes one raises its version, and only if it is still the one that was read. One that is edited by hand must stay
-- readable: all workers read it.
CREATE TABLE {breakers} (
    name TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('closed', 'open')),
    failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    counted_from INTEGER CHECK (counted_from BETWEEN 0 AND 253402300799999999),
    opened_at INTEGER CHECK (opened_at BETWEEN 0 AND 253402300799999999),
    until INTEGER CHECK (until BETWEEN 0 AND 253402300799999999),
    holds INTEGER NOT NULL DEFAULT 0 CHECK (holds >= 0),
    turn TEXT,
    turn_until INTEGER CHECK (turn_until BETWEEN 0 AND 253402300799999999),
    forced INTEGER NOT NULL DEFAULT 0 CHECK (forced IN (0, 1)),
    reason TEXT,
    actor_type TEXT,
    actor_id TEXT
) WITHOUT ROWID;
-- Every worker asks for these twice a second, and most providers are not among them.
CREATE INDEX {prefix}breakers_suspect ON {breakers} (name) WHERE state = 'open' OR failures > 0;
