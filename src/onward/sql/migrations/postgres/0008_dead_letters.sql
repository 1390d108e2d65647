-- What became of dead jobs: one row for each death that was dealt with, by the lease under which the job died. A dead
-- job without one waits for somebody. Nothing is written here when a job dies.
CREATE TABLE {dead_letters} (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    org_id text COLLATE "C",
    resolution text NOT NULL CHECK (resolution IN ('replayed', 'discarded', 'fixed')),
    at timestamptz NOT NULL,
    actor_type text,
    actor_id text,
    reason text NOT NULL,
    successor_id uuid CHECK ((successor_id IS NOT NULL) = (resolution = 'fixed')),
    diff jsonb,
    PRIMARY KEY (job_id, lease)
);
CREATE UNIQUE INDEX dead_letters_successor ON {dead_letters} (successor_id) WHERE successor_id IS NOT NULL;
