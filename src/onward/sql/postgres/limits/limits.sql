-- fragment: name_of_limit
split_part(asked.limit_key, '/', 1)

-- name: lock_permits
-- plan: steady
-- Returns the keys for which a job waits, once no other session admits jobs of them. By an advisory lock, which leaves
-- no dead row behind; one for each of 256 parts of all keys, else thousands of keys would fill the server's lock table.
-- Locked in order, so that no deadlock arises.
WITH waiting AS MATERIALIZED (
    -- With a LIMIT, one probe of the index for each key: else a plan made for an empty table reads all waiting jobs.
    SELECT asked.limit_key FROM (:keys::texts) AS asked (limit_key), LATERAL (
        SELECT FROM {live} AS live
        WHERE live.limit_key = asked.limit_key AND live.state = 'blocked' AND live.pending = 0
        LIMIT 1
    ) AS one
),
part AS MATERIALIZED (SELECT DISTINCT hashtext(limit_key) & 255 AS number FROM waiting ORDER BY number),
locked AS MATERIALIZED (
    SELECT count(pg_advisory_xact_lock(hashtext('{prefix}permits'), number)) AS taken FROM part
)
SELECT limit_key FROM waiting, locked WHERE taken >= 0

-- name: admit_jobs
-- plan: steady
-- Jobs that another session has locked are skipped; but in an ordered limit no job overtakes, so there all wait.
-- In an ordered limit, jobs that have begun come first, then those due first, of any priority: the first of each
-- priority in use are compared, which is found with one probe.
WITH room AS MATERIALIZED (SELECT * FROM :rooms::rows(limit_key text, jobs integer)),
line AS MATERIALIZED (SELECT * FROM :lines::rows(limit_key text, jobs integer)),
free AS MATERIALIZED (
    SELECT next.id FROM room, LATERAL (
        SELECT live.id FROM {live} AS live
        WHERE live.limit_key = room.limit_key AND live.state = 'blocked' AND live.pending = 0
        ORDER BY live.priority, live.run_at, live.id
        LIMIT room.jobs
        FOR UPDATE SKIP LOCKED
    ) AS next
),
head AS MATERIALIZED (
    SELECT line.limit_key, next.id FROM line, LATERAL (
        SELECT one.id FROM (
            SELECT live.id, live.run_at, 0 AS rank FROM {live} AS live
            WHERE live.limit_key = line.limit_key AND live.lease > 0 AND live.state = 'blocked' AND live.pending = 0
            UNION ALL
            SELECT first.id, first.run_at, 1
            FROM (
                WITH RECURSIVE level (priority) AS (
                    SELECT (
                        SELECT live.priority FROM {live} AS live
                        WHERE live.limit_key = line.limit_key AND live.state = 'blocked' AND live.pending = 0
                        ORDER BY live.priority
                        LIMIT 1
                    )
                    UNION ALL
                    SELECT (
                        SELECT live.priority FROM {live} AS live
                        WHERE live.limit_key = line.limit_key AND live.state = 'blocked' AND live.pending = 0
                            AND live.priority > level.priority
                        ORDER BY live.priority
                        LIMIT 1
                    )
                    FROM level
                    WHERE level.priority IS NOT NULL
                )
                SELECT priority FROM level
            ) AS level, LATERAL (
                SELECT live.id, live.run_at FROM {live} AS live
                WHERE live.limit_key = line.limit_key AND live.priority = level.priority AND live.state = 'blocked'
                    AND live.pending = 0 AND live.lease = 0
                ORDER BY live.run_at, live.id
                LIMIT line.jobs
            ) AS first
        ) AS one
        ORDER BY one.rank, one.run_at, one.id
        LIMIT line.jobs
    ) AS next
),
held AS MATERIALIZED (
    SELECT live.id FROM {live} AS live
    WHERE live.id = ANY (ARRAY(SELECT id FROM head)) AND live.state = 'blocked' AND live.pending = 0
    FOR UPDATE SKIP LOCKED
),
ready AS (
    UPDATE {live} AS live SET state = 'queued'
    WHERE live.state = 'blocked' AND live.id = ANY (ARRAY(
        SELECT id FROM free
        UNION ALL
        SELECT head.id FROM head
        WHERE NOT EXISTS (
            SELECT FROM head AS other
            WHERE other.limit_key = head.limit_key AND other.id NOT IN (SELECT id FROM held)
        )
    ))
    RETURNING live.limit_key, live.queue
),
woken AS MATERIALIZED (
    SELECT count(pg_notify('{channel}', queue)) AS sent FROM (SELECT DISTINCT queue FROM ready) AS found
    WHERE {+someone_idles}
)
SELECT limit_key, queue, count(*) FROM ready GROUP BY limit_key, queue
UNION ALL
SELECT NULL, NULL, 0 FROM woken WHERE sent < 0

-- name: put_permits
INSERT INTO {permits} (limit_key, paid_at)
SELECT limit_key, {instant(paid_at)} FROM :paid::rows(limit_key text, paid_at bigint)
ON CONFLICT (limit_key) DO UPDATE SET paid_at = excluded.paid_at
RETURNING limit_key

-- name: declare_limits
-- An unchanged declaration is not written, because every worker declares its limits when it starts.
INSERT INTO {limits} AS own (name, declared, declared_at)
SELECT name, declared, :now::clock FROM :terms::rows(name text, declared jsonb)
ORDER BY name COLLATE "C"
ON CONFLICT (name) DO UPDATE SET declared = excluded.declared, declared_at = excluded.declared_at
WHERE own.declared <> excluded.declared
RETURNING name

-- name: override_limit
WITH {+clock},
made AS (
    UPDATE {limits} SET override = :override::json, set_at = now, reason = :reason::text,
        actor_type = :actor_type::text, actor_id = :actor_id::text
    FROM clock
    WHERE name = :name::text AND (override IS NOT NULL OR :override::json IS NOT NULL)
    RETURNING name
),
event AS (
    INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
    SELECT now, :event::text, :actor_type::text, :actor_id::text, :detail::json FROM made, clock
)
SELECT name FROM made
