-- Batches: jobs that are counted together, and the jobs that are enqueued when all of them have ended. The counts are of
-- jobs whose end is settled; how many there are besides is asked of `live`, so that who adds a job locks no count.
CREATE TABLE {batches} (
    id uuid PRIMARY KEY,
    org_id text COLLATE "C",
    name text,
    created_at timestamptz NOT NULL,
    closed_at timestamptz,
    cancelled_at timestamptz,
    ended_at timestamptz,
    succeeded integer NOT NULL DEFAULT 0,
    dead integer NOT NULL DEFAULT 0,
    cancelled integer NOT NULL DEFAULT 0,
    callbacks jsonb NOT NULL,
    actor_type text,
    actor_id text,
    correlation_id text,
    parent_id uuid
) WITH (fillfactor = 50);
CREATE INDEX batches_of_org ON {batches} (org_id, id);

CREATE INDEX live_batch ON {live} (batch_id, id) WHERE batch_id IS NOT NULL;
