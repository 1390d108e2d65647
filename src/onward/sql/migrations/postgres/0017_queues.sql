-- What an application declares of a queue is in `settings`; here is what an operator set instead, by when the jobs that
-- its rate let go are paid for, and whose turn it is.
ALTER TABLE {queues}
    ADD COLUMN override jsonb,
    ADD COLUMN set_at timestamptz,
    ADD COLUMN reason text,
    ADD COLUMN actor_type text,
    ADD COLUMN actor_id text,
    ADD COLUMN paid_at bigint,
    ADD COLUMN turn text;
-- Each claim of such a queue changes its row: let the new version find place beside the old one.
ALTER TABLE {queues} SET (fillfactor = 50);
-- From org to org with one probe each. Only jobs of queues that are shared out fairly are in it.
CREATE INDEX live_fair ON {live} (queue, org_id COLLATE "C", priority, run_at, id) WHERE state = 'queued' AND fair;
