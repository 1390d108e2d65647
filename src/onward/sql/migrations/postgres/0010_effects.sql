-- What handlers have done once, and the results that they remember: one row for each name of a job. `payload_hash` tells
-- for which payload; a new payload, and an operator's reset, raise the generation, which is part of the idempotency key.
-- Without an org of its own: whose it is, its job says, so that no org can leave one for a job of another.
CREATE TABLE {effects} (
    job_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('once', 'step')),
    state text COLLATE "C" NOT NULL CHECK (state IN ('begun', 'done', 'reset')),
    payload_hash text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    result jsonb,
    lease bigint NOT NULL,
    attempt integer NOT NULL,
    begun_at timestamptz,
    done_at timestamptz,
    PRIMARY KEY (job_id, name)
);
