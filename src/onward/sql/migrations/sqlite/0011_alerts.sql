-- The alerts: one row for each group of deaths, by its fingerprint, and for each finding of the doctor. `unsent` is what
-- happened since the last message; `batch` what that message told of.
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

-- Messages that wait for their sink: the newest of each alert; with no `next_at` it was given up.
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

-- The newest deaths that were turned into alerts: each is, once. The row of no job says up to when all are
-- known: what died before the tables were made is not told.
CREATE TABLE {alerted} (
    job_id TEXT NOT NULL,
    lease INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (job_id, lease)
) WITHOUT ROWID;
CREATE INDEX {prefix}alerted_at ON {alerted} (at);
INSERT INTO {alerted} (job_id, lease, at)
VALUES ('00000000-0000-0000-0000-000000000000', 0, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER));

CREATE INDEX {prefix}ended_deaths ON {ended} (ended_at) WHERE state = 'dead';
