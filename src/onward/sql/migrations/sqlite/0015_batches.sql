-- Batches: jobs that are counted together, and the jobs that are enqueued when all of them have ended. The counts are of
-- jobs whose end is settled; how many there are besides is asked of `live`.
CREATE TABLE {batches} (
    id TEXT PRIMARY KEY NOT NULL,
    org_id TEXT,
    name TEXT,
    created_at INTEGER NOT NULL,
    closed_at INTEGER,
    cancelled_at INTEGER,
    ended_at INTEGER,
    succeeded INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    callbacks TEXT NOT NULL,
    actor_type TEXT,
    actor_id TEXT,
    correlation_id TEXT,
    parent_id TEXT
) WITHOUT ROWID;
CREATE INDEX {prefix}batches_of_org ON {batches} (org_id, id);

CREATE INDEX {prefix}live_batch ON {live} (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX {prefix}ended_batch ON {ended} (batch_id, id) WHERE batch_id IS NOT NULL;
-- Nearly always empty: what a batch still has to count.
CREATE INDEX {prefix}ended_uncounted ON {ended} (batch_id) WHERE flow > 0 AND batch_id IS NOT NULL;
