-- Signals that were sent, each kept for a while: whoever waits for its event and key within its org sees it, also who
-- comes later. Without an org, or a key: empty. `fresh`: nobody has looked yet who waits for it.
CREATE TABLE {signals} (
    id uuid PRIMARY KEY,
    org_id text COLLATE "C" NOT NULL,
    event text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    payload jsonb,
    at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    actor_type text,
    actor_id text,
    fresh smallint NOT NULL DEFAULT 1 CHECK (fresh IN (0, 1))
);
CREATE INDEX signals_named ON {signals} (org_id, event, key, at);
CREATE INDEX signals_expiring ON {signals} (expires_at);
CREATE INDEX signals_fresh ON {signals} (at) WHERE fresh = 1;

-- Jobs that have left their slot until a signal comes. A row is true as long as its job still has this lease; `until`
-- is when the job is due without a signal, `seen` are the signals that it had before. `fresh`: nobody has looked yet
-- whether the signal is there. Of a signal and a job that do not see each other, because neither was committed when the
-- other looked, the one that is committed last finds the other when somebody looks at what is fresh.
CREATE TABLE {awaited} (
    job_id uuid PRIMARY KEY,
    lease bigint NOT NULL,
    org_id text COLLATE "C" NOT NULL,
    event text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    until timestamptz NOT NULL,
    seen jsonb NOT NULL,
    fresh smallint NOT NULL DEFAULT 1 CHECK (fresh IN (0, 1))
);
CREATE INDEX awaited_named ON {awaited} (org_id, event, key);
CREATE INDEX awaited_fresh ON {awaited} (until) WHERE fresh = 1;
