-- What handlers have done once, and the results that they remember: one row for each name of a job. `payload_hash` tells
-- for which payload; a new payload, and an operator's reset, raise the generation, which is part of the idempotency key.
-- Without an org of its own: whose it is, its job says, so that no org can leave one for a job of another.
CREATE TABLE {effects} (
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('once', 'step')),
    state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'reset')),
    payload_hash TEXT NOT NULL,
    generation INTEGER NOT NULL,
    result TEXT,
    lease INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    begun_at INTEGER,
    done_at INTEGER,
    PRIMARY KEY (job_id, name)
);
