-- name: lead
-- Writes only for the leader, or for a worker that can take the lead, and for the leader only in the second half of
-- its term.
INSERT INTO {leaders} (name, worker_id, until)
SELECT :name, :worker, :now + :ttl
WHERE NOT EXISTS (
    SELECT 1 FROM {leaders}
    WHERE name = :name AND until > CASE WHEN worker_id = :worker THEN :now + :ttl / 2 ELSE :now END
)
ON CONFLICT (name) DO UPDATE SET worker_id = excluded.worker_id, until = excluded.until;
SELECT worker_id FROM {leaders} WHERE name = :name AND worker_id = :worker AND until > :now
