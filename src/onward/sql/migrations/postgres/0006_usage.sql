-- What runs have used: one row for each run and unit, written with the run's end.
CREATE TABLE {usage} (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    unit text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    org_id text COLLATE "C",
    project_id text,
    job_type text NOT NULL,
    queue text NOT NULL,
    category text NOT NULL,
    amount double precision NOT NULL CHECK (amount >= 0),
    cost_micros bigint NOT NULL CHECK (cost_micros >= 0),
    at timestamptz NOT NULL,
    PRIMARY KEY (job_id, lease, unit)
);
CREATE INDEX usage_of_org ON {usage} (org_id, at);
-- Rows come in the order of time, so a few bytes for each hundred pages tell where a time is.
CREATE INDEX usage_by_time ON {usage} USING brin (at) WITH (autosummarize = on);

-- How much an org may spend in a period; `spent_at` is set while it has spent all of it.
CREATE TABLE {budgets} (
    org_id text COLLATE "C" PRIMARY KEY,
    limit_micros bigint NOT NULL CHECK (limit_micros > 0),
    period text NOT NULL CHECK (period IN ('day', 'month', 'total')),
    period_started_at timestamptz NOT NULL,
    spent_micros bigint NOT NULL DEFAULT 0,
    spent_at timestamptz,
    set_at timestamptz NOT NULL,
    actor_type text,
    actor_id text,
    reason text
) WITH (fillfactor = 50);
-- Every worker asks for these twice a second, and most orgs are not among them.
CREATE INDEX budgets_spent ON {budgets} (org_id) WHERE spent_at IS NOT NULL;

-- What that run cost; null where nothing was metered.
ALTER TABLE {attempts} ADD COLUMN cost_micros bigint;
