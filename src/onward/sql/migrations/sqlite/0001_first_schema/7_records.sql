-- The audit and its hash chain, usage and budgets, artifacts.

-- Append-only; AUTOINCREMENT, so that a number is never given twice. `action` is the name that an application gives an
-- event, null for most.
CREATE TABLE {audit} (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    job_id TEXT,
    job_type TEXT,
    org_id TEXT,
    project_id TEXT,
    actor_type TEXT,
    actor_id TEXT,
    request_id TEXT,
    correlation_id TEXT,
    attempt INTEGER,
    lease INTEGER,
    worker_id TEXT,
    detail TEXT,
    action TEXT
);
CREATE INDEX {prefix}audit_of_job ON {audit} (job_id);

-- The hash chain over the audit, sealed a moment later: `link` is made of the previous link and the row's digest.
CREATE TABLE {chain} (
    position INTEGER PRIMARY KEY NOT NULL,
    seq INTEGER NOT NULL UNIQUE,
    digest TEXT NOT NULL,
    link TEXT NOT NULL,
    pruned INTEGER
);

-- Where the chain ends, up to which number every row is known to be in it, and whether old rows are being removed.
CREATE TABLE {sealing} (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    floor INTEGER NOT NULL DEFAULT 0,
    position INTEGER NOT NULL DEFAULT 0,
    link TEXT NOT NULL DEFAULT '0000000000000000000000000000000000000000000000000000000000000000',
    pruning INTEGER NOT NULL DEFAULT 0
);
INSERT INTO {sealing} (id) VALUES (1);

CREATE TRIGGER {prefix}audit_is_not_updated BEFORE UPDATE ON {audit}
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only: UPDATE is refused');
END;
CREATE TRIGGER {prefix}audit_is_not_deleted BEFORE DELETE ON {audit}
WHEN NOT EXISTS (SELECT 1 FROM {sealing} WHERE pruning = 1)
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only: DELETE is refused; old rows are removed by audit prune');
END;
CREATE TRIGGER {prefix}chain_is_not_updated BEFORE UPDATE ON {chain}
WHEN NOT EXISTS (SELECT 1 FROM {sealing} WHERE pruning = 1)
BEGIN
    SELECT RAISE(ABORT, 'the chain of the audit is append-only: UPDATE is refused');
END;
CREATE TRIGGER {prefix}chain_is_not_deleted BEFORE DELETE ON {chain}
BEGIN
    SELECT RAISE(ABORT, 'the chain of the audit is append-only: DELETE is refused');
END;

-- A lower floor would reopen the audit below it, and a lower position would restart the chain.
CREATE TRIGGER {prefix}sealing_is_not_lowered BEFORE UPDATE ON {sealing}
WHEN NEW.floor < OLD.floor OR NEW.position < OLD.position
BEGIN
    SELECT RAISE(ABORT, 'sealing never goes back: UPDATE is refused');
END;
CREATE TRIGGER {prefix}sealing_is_not_deleted BEFORE DELETE ON {sealing}
BEGIN
    SELECT RAISE(ABORT, 'sealing never goes back: DELETE is refused');
END;

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
-- Every worker reads these twice a second, and most orgs are not among them.
CREATE INDEX {prefix}budgets_spent ON {budgets} (org_id) WHERE spent_at IS NOT NULL;

-- Files that jobs read and write. A row is written after its content, so there is never a row without content.
-- `data` is base64, for small files only; `place` is where the content of the others is.
CREATE TABLE {artifacts} (
    id TEXT PRIMARY KEY NOT NULL,
    org_id TEXT,
    project_id TEXT,
    job_id TEXT,
    lease INTEGER,
    attempt INTEGER,
    name TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size INTEGER NOT NULL CHECK (size >= 0),
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    place TEXT NOT NULL,
    data TEXT CHECK ((data IS NOT NULL) = (place = 'database')),
    roles TEXT,
    actor_type TEXT,
    actor_id TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
);
CREATE INDEX {prefix}artifacts_of_job ON {artifacts} (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX {prefix}artifacts_of_org ON {artifacts} (org_id, id);
CREATE INDEX {prefix}artifacts_by_content ON {artifacts} (sha256);
CREATE INDEX {prefix}artifacts_expiring ON {artifacts} (expires_at) WHERE expires_at IS NOT NULL;
