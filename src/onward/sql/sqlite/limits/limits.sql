-- fragment: name_of_limit
substr(asked.limit_key, 1, instr(asked.limit_key || '/', '/') - 1)

-- name: lock_permits
-- Returns the keys for which a job waits. SQLite has one writer, so becoming it is lock enough.
DELETE FROM {permits} WHERE false;
SELECT asked.value FROM json_each(:keys) AS asked
WHERE EXISTS (
    SELECT 1 FROM {live} AS live
    WHERE live.limit_key = asked.value AND live.state = 'blocked' AND live.pending = 0
)

-- name: admit_jobs
-- In an ordered limit, jobs that have begun come first, then those due first, of any priority: the first of each
-- priority in use are compared, which is found with one probe.
-- each rooms
UPDATE {live} SET state = 'queued'
WHERE id IN (
    SELECT id FROM {live}
    WHERE limit_key = :rooms.limit_key AND state = 'blocked' AND pending = 0
    ORDER BY priority, run_at, id
    LIMIT :rooms.jobs
)
RETURNING limit_key, queue, 1;
-- each lines
UPDATE {live} SET state = 'queued'
WHERE id IN (
    SELECT one.id FROM (
        SELECT begun.id, begun.run_at, 0 AS rank FROM {live} AS begun
        WHERE begun.limit_key = :lines.limit_key AND begun.lease > 0 AND begun.state IN ('blocked', 'scheduled')
            AND begun.state = 'blocked' AND begun.pending = 0
        UNION ALL
        SELECT first.id, first.run_at, 1
        FROM (
            WITH RECURSIVE level (priority) AS (
                SELECT (
                    SELECT live.priority FROM {live} AS live
                    WHERE live.limit_key = :lines.limit_key AND live.state = 'blocked' AND live.pending = 0
                    ORDER BY live.priority
                    LIMIT 1
                )
                UNION ALL
                SELECT (
                    SELECT live.priority FROM {live} AS live
                    WHERE live.limit_key = :lines.limit_key AND live.state = 'blocked' AND live.pending = 0
                        AND live.priority > level.priority
                    ORDER BY live.priority
                    LIMIT 1
                )
                FROM level
                WHERE level.priority IS NOT NULL
            )
            SELECT priority FROM level
        ) AS level CROSS JOIN {live} AS first ON first.id IN (
            SELECT live.id FROM {live} AS live
            WHERE live.limit_key = :lines.limit_key AND live.priority = level.priority AND live.state = 'blocked'
                AND live.pending = 0 AND live.lease = 0
            ORDER BY live.run_at, live.id
            LIMIT :lines.jobs
        )
    ) AS one
    ORDER BY one.rank, one.run_at, one.id
    LIMIT :lines.jobs
)
RETURNING limit_key, queue, 1

-- name: put_permits
-- each paid
INSERT INTO {permits} (limit_key, paid_at) VALUES (:paid.limit_key, :paid.paid_at)
ON CONFLICT (limit_key) DO UPDATE SET paid_at = excluded.paid_at
RETURNING limit_key

-- name: declare_limits
-- An unchanged declaration is not written, because every worker declares its limits when it starts.
-- each terms
INSERT INTO {limits} (name, declared, declared_at) VALUES (:terms.name, :terms.declared, :now)
ON CONFLICT (name) DO UPDATE SET declared = excluded.declared, declared_at = excluded.declared_at
WHERE declared <> excluded.declared
RETURNING name

-- name: override_limit
INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
SELECT :now, :event, :actor_type, :actor_id, :detail FROM {limits}
WHERE name = :name AND (override IS NOT NULL OR :override IS NOT NULL);
UPDATE {limits}
SET override = :override, set_at = :now, reason = :reason, actor_type = :actor_type, actor_id = :actor_id
WHERE name = :name AND (override IS NOT NULL OR :override IS NOT NULL)
RETURNING name
