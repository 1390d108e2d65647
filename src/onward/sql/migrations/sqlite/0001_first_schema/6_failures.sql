-- Dead letters and their groups, breakers, alerts.

-- How dead jobs were resolved: one row for each resolved death, by the lease under which the job died. A dead job
-- without a row is unresolved. Nothing is written here when a job dies.
CREATE TABLE {dead_letters} (
    job_id TEXT NOT NULL,
    lease INTEGER NOT NULL,
    org_id TEXT,
    resolution TEXT NOT NULL CHECK (resolution IN ('replayed', 'discarded', 'fixed')),
    at INTEGER NOT NULL,
    actor_type TEXT,
    actor_id TEXT,
    reason TEXT NOT NULL,
    successor_id TEXT CHECK ((successor_id IS NOT NULL) = (resolution = 'fixed')),
    diff TEXT,
    PRIMARY KEY (job_id, lease)
) WITHOUT ROWID;
CREATE UNIQUE INDEX {prefix}dead_letters_successor ON {dead_letters} (successor_id) WHERE successor_id IS NOT NULL;

-- Dead jobs by the cause of death, so that one group is found among any number of them. Errors without a fingerprint
-- are one group.
CREATE INDEX {prefix}ended_dead_group ON {ended} (
    coalesce(CASE WHEN json_valid(error) THEN json_extract(error, '$.fingerprint') END, 'unknown'), id
) WHERE state = 'dead';

-- Providers that have pushed back, and what is held because of it. A provider that never did has no row. An update
-- raises `version` and succeeds only if the version is still the one that was read. The CHECKs keep a row that is
-- edited by hand readable for the workers, all of which read it.
CREATE TABLE {breakers} (
    name TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('closed', 'open')),
    failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failed_jobs TEXT NOT NULL DEFAULT '',
    counted_from INTEGER CHECK (counted_from BETWEEN 0 AND 253402300799999999),
    opened_at INTEGER CHECK (opened_at BETWEEN 0 AND 253402300799999999),
    until INTEGER CHECK (until BETWEEN 0 AND 253402300799999999),
    holds INTEGER NOT NULL DEFAULT 0 CHECK (holds >= 0),
    probe TEXT,
    probe_until INTEGER CHECK (probe_until BETWEEN 0 AND 253402300799999999),
    forced INTEGER NOT NULL DEFAULT 0 CHECK (forced IN (0, 1)),
    reason TEXT,
    actor_type TEXT,
    actor_id TEXT
) WITHOUT ROWID;
-- Every worker reads these twice a second, and most providers are not among them.
CREATE INDEX {prefix}breakers_suspect ON {breakers} (name) WHERE state = 'open' OR failures > 0;

-- One row for each group of deaths, by its fingerprint, and for each finding of the doctor. `unsent` counts what has
-- happened since the last message, `batch` what that message reported.
CREATE TABLE {alerts} (
    fingerprint TEXT PRIMARY KEY NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('death', 'finding')),
    kind TEXT NOT NULL,
    about TEXT NOT NULL,
    last_job_id TEXT,
    count INTEGER NOT NULL,
    unsent INTEGER NOT NULL,
    batch INTEGER NOT NULL DEFAULT 0,
    sends INTEGER NOT NULL DEFAULT 0,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    sent_at INTEGER,
    resolved_at INTEGER,
    muted_at INTEGER,
    muted_until INTEGER,
    mute_reason TEXT,
    mute_actor_type TEXT,
    mute_actor_id TEXT
) WITHOUT ROWID;
CREATE INDEX {prefix}alerts_unsent ON {alerts} (last_at) WHERE unsent > 0;

-- Messages that wait for their sink: the newest of each alert. A message without `next_at` was given up.
CREATE TABLE {alert_sends} (
    fingerprint TEXT NOT NULL,
    sink TEXT NOT NULL,
    number INTEGER NOT NULL,
    alert TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER,
    error TEXT,
    PRIMARY KEY (fingerprint, sink)
) WITHOUT ROWID;
CREATE INDEX {prefix}alert_sends_next ON {alert_sends} (next_at);

-- The newest deaths that are in an alert, so that each is counted once. The row whose id is all zeros holds the time up
-- to which all deaths are known; it starts at the time of this migration.
CREATE TABLE {alerted} (
    job_id TEXT NOT NULL,
    lease INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (job_id, lease)
) WITHOUT ROWID;
CREATE INDEX {prefix}alerted_at ON {alerted} (at);
INSERT INTO {alerted} (job_id, lease, at)
VALUES ('00000000-0000-0000-0000-000000000000', 0, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER));
-- For reading deaths since a time.
CREATE INDEX {prefix}ended_deaths ON {ended} (ended_at) WHERE state = 'dead';
