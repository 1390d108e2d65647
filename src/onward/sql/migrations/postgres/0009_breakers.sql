-- Providers that have pushed back, and what is held because of it. A provider that never did has no row. Whoever
-- changes one raises its version, and only if it is still the one that was read.
CREATE TABLE {breakers} (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    state text NOT NULL CHECK (state IN ('closed', 'open')),
    failures integer NOT NULL DEFAULT 0,
    counted_from timestamptz,
    opened_at timestamptz,
    until timestamptz,
    holds integer NOT NULL DEFAULT 0,
    turn text COLLATE "C",
    turn_until timestamptz,
    forced integer NOT NULL DEFAULT 0 CHECK (forced IN (0, 1)),
    reason text,
    actor_type text,
    actor_id text
) WITH (fillfactor = 50);
-- Every worker asks for these twice a second, and most providers are not among them.
CREATE INDEX breakers_suspect ON {breakers} (name) WHERE state = 'open' OR failures > 0;
