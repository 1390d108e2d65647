-- name: lead
-- Read before the insert, so that a worker that does not lead writes and locks nothing, and the leader writes only in
-- the second half of its term. Of two workers that find the lead free, the second waits for the first, and then sees
-- that it is taken.
WITH {+clock},
held AS MATERIALIZED (
    SELECT worker_id FROM {leaders}, clock
    WHERE name = :name::text
        AND until > CASE WHEN worker_id = :worker::text THEN {later(now, :ttl::int / 2)} ELSE now END
),
taken AS (
    INSERT INTO {leaders} AS leader (name, worker_id, until)
    SELECT :name::text, :worker::text, {later(now, :ttl::int)} FROM clock
    WHERE NOT EXISTS (SELECT FROM held)
    ON CONFLICT (name) DO UPDATE SET worker_id = excluded.worker_id, until = excluded.until
    WHERE leader.worker_id = excluded.worker_id OR leader.until <= (SELECT now FROM clock)
    RETURNING worker_id
)
SELECT worker_id FROM taken
UNION ALL
SELECT worker_id FROM held WHERE worker_id = :worker::text
