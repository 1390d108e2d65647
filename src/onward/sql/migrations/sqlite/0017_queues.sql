-- What an application declares of a queue is in `settings`; here is what an operator set instead, by when the jobs that
-- its rate let go are paid for, and whose turn it is.
ALTER TABLE {queues} ADD COLUMN override TEXT;
ALTER TABLE {queues} ADD COLUMN set_at INTEGER;
ALTER TABLE {queues} ADD COLUMN reason TEXT;
ALTER TABLE {queues} ADD COLUMN actor_type TEXT;
ALTER TABLE {queues} ADD COLUMN actor_id TEXT;
ALTER TABLE {queues} ADD COLUMN paid_at INTEGER;
ALTER TABLE {queues} ADD COLUMN turn TEXT;
-- From org to org with one probe each. Only jobs of queues that are shared out fairly are in it.
CREATE INDEX {prefix}live_fair ON {live} (queue, org_id, priority, run_at, id) WHERE state = 'queued' AND fair = 1;
