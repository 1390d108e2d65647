-- What became of dead jobs: one row for each death that was dealt with, by the lease under which the job died. A dead
-- job without one waits for somebody. Nothing is written here when a job dies.
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
