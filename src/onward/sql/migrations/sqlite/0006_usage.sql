-- What runs have used: one row for each run and unit, written with the run's end.
CREATE TABLE {usage} (
    job_id TEXT NOT NULL,
    lease INTEGER NOT NULL,
    unit TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    org_id TEXT,
    project_id TEXT,
    job_type TEXT NOT NULL,
    queue TEXT NOT NULL,
    category TEXT NOT NULL,
    amount REAL NOT NULL CHECK (amount >= 0),
    cost_micros INTEGER NOT NULL CHECK (cost_micros >= 0),
    at INTEGER NOT NULL,
    PRIMARY KEY (job_id, lease, unit)
) WITHOUT ROWID;
CREATE INDEX {prefix}usage_of_org ON {usage} (org_id, at);
CREATE INDEX {prefix}usage_by_time ON {usage} (at);

-- How much an org may spend in a period; `spent_at` is set while it has spent all of it.
CREATE TABLE {budgets} (
    org_id TEXT PRIMARY KEY NOT NULL,
    limit_micros INTEGER NOT NULL CHECK (limit_micros > 0),
    period TEXT NOT NULL CHECK (period IN ('day', 'month', 'total')),
    period_started_at INTEGER NOT NULL,
    spent_micros INTEGER NOT NULL DEFAULT 0,
    spent_at INTEGER,
    set_at INTEGER NOT NULL,
    actor_type TEXT,
    actor_id TEXT,
    reason TEXT
);
-- Every worker asks for these twice a second, and most orgs are not among them.
CREATE INDEX {prefix}budgets_spent ON {budgets} (org_id) WHERE spent_at IS NOT NULL;

-- What that run cost; null where nothing was metered.
ALTER TABLE {attempts} ADD COLUMN cost_micros INTEGER;
