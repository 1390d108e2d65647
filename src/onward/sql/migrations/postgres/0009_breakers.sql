-- Providers that have pushed back, and what is held because of it. A provider that never did has no row. Whoever
-- changes one raises its version, and only if it is still the one that was read. One that is edited by hand must stay
-- readable: all workers read it.
CREATE TABLE {breakers} (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    state text NOT NULL CHECK (state IN ('closed', 'open')),
    failures integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    counted_from timestamptz CHECK (counted_from BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59.999999Z'),
    opened_at timestamptz CHECK (opened_at BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59.999999Z'),
    until timestamptz CHECK (until BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59.999999Z'),
    holds integer NOT NULL DEFAULT 0 CHECK (holds >= 0),
    turn text COLLATE "C",
    turn_until timestamptz CHECK (turn_until BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59.999999Z'),
    forced integer NOT NULL DEFAULT 0 CHECK (forced IN (0, 1)),
    reason text,
    actor_type text,
    actor_id text
) WITH (fillfactor = 50);
-- Every worker asks for these twice a second, and most providers are not among them.
CREATE INDEX breakers_suspect ON {breakers} (name) WHERE state = 'open' OR failures > 0;
