-- fragment: standing
-- The state of a key, and what its limit allows. The conditions repeat those of the indexes word for word: SQLite
-- uses a partial index only then.
asked.limit_key,
(SELECT count(CASE WHEN one.state = 'queued' THEN 1 END) FROM {live} AS one WHERE {+holds_permit}),
(SELECT count(CASE WHEN one.state = 'running' THEN 1 END) FROM {live} AS one WHERE {+holds_permit}),
(SELECT count(CASE WHEN one.state = 'blocked' AND one.pending = 0 THEN 1 END) FROM {live} AS one WHERE {+has_begun}),
(SELECT count(CASE WHEN one.state = 'scheduled' OR one.pending > 0 THEN 1 END) FROM {live} AS one WHERE {+has_begun}),
{micros(permit.paid_at)}, {text(own.declared)}, {text(own.override)}, {micros(:now::clock)}
FROM asked
LEFT JOIN {limits} AS own ON own.name = {+name_of_limit}
LEFT JOIN {permits} AS permit ON permit.limit_key = asked.limit_key

-- fragment: holds_permit
one.limit_key = asked.limit_key AND one.state IN ('queued', 'running')

-- fragment: has_begun
one.limit_key = asked.limit_key AND one.lease > 0 AND one.state IN ('blocked', 'scheduled')

-- name: read_standing
-- plan: steady
SELECT * FROM (
    WITH asked (limit_key) AS (:keys::texts)
    SELECT {+standing}
) AS found

-- name: find_waiting
-- plan: steady
-- From key to key for which a job waits, with one probe of the index each, however many jobs wait.
SELECT * FROM (
    WITH RECURSIVE asked (limit_key, place) AS (
        SELECT (
            SELECT first.limit_key FROM {live} AS first
            WHERE first.limit_key > :after::text AND first.state = 'blocked' AND first.pending = 0
            ORDER BY first.limit_key
            LIMIT 1
        ), 1
        UNION ALL
        SELECT (
            SELECT next.limit_key FROM {live} AS next
            WHERE next.limit_key > asked.limit_key AND next.state = 'blocked' AND next.pending = 0
            ORDER BY next.limit_key
            LIMIT 1
        ), asked.place + 1
        FROM asked
        WHERE asked.limit_key IS NOT NULL AND asked.place < :limit::int
    )
    SELECT {+standing}
    WHERE asked.limit_key IS NOT NULL
) AS found

-- name: forget_permits
-- A rate that owes nothing needs no row.
DELETE FROM {permits}
WHERE limit_key IN (SELECT old.limit_key FROM {permits} AS old WHERE old.paid_at <= :now::clock LIMIT :limit::int)
    AND paid_at <= :now::clock
RETURNING limit_key

-- name: list_limits
-- Counted up to a cap. `0` is the character after `/`: the range holds the keys of this limit, and of names that
-- continue with a character below `/`, which the second condition excludes.
SELECT
    own.name, {text(own.declared)}, {micros(own.declared_at)}, {text(own.override)}, {micros(own.set_at)}, own.reason,
    own.actor_type, own.actor_id,
    (SELECT count(*) FROM (
        SELECT 1 FROM {live} AS one WHERE one.state IN ('queued', 'running') AND {+of_limit} LIMIT :cap::int
    ) AS active),
    (SELECT count(*) FROM (
        SELECT 1 FROM {live} AS one WHERE one.state = 'blocked' AND one.pending = 0 AND {+of_limit} LIMIT :cap::int
    ) AS waiting)
FROM {limits} AS own
WHERE :name::text IS NULL OR own.name = :name::text
ORDER BY own.name

-- fragment: of_limit
one.limit_key >= own.name AND one.limit_key < own.name || '0'
AND (one.limit_key = own.name OR one.limit_key >= own.name || '/')

-- name: list_permits
-- The busiest keys of a limit, among the jobs that were read.
SELECT limit_key, sum(active), sum(waiting)
FROM (
    SELECT held.limit_key, 1 AS active, 0 AS waiting FROM (
        SELECT one.limit_key FROM (SELECT :name::text AS name) AS own, {live} AS one
        WHERE one.state IN ('queued', 'running') AND {+of_limit}
        LIMIT :cap::int
    ) AS held
    UNION ALL
    SELECT kept.limit_key, 0, 1 FROM (
        SELECT one.limit_key FROM (SELECT :name::text AS name) AS own, {live} AS one
        WHERE one.state = 'blocked' AND one.pending = 0 AND {+of_limit}
        LIMIT :cap::int
    ) AS kept
) AS seen
GROUP BY limit_key
ORDER BY 3 DESC, 2 DESC, 1
LIMIT :limit::int

-- name: find_permit
-- The limit of a job, and for how many other jobs it waits.
SELECT limit_key, pending FROM {live} WHERE id = :id::id

-- name: list_holders
SELECT {text(one.id)}, one.state, one.worker_id
FROM {live} AS one
WHERE one.limit_key = :key::text AND one.state IN ('queued', 'running')
ORDER BY one.state DESC, one.id
LIMIT :limit::int

-- name: list_waiting
-- How many jobs wait for each of these keys, up to a cap, and since when: the first of each priority in use are compared.
SELECT
    asked.limit_key,
    (SELECT count(*) FROM (
        SELECT 1 FROM {live} AS one
        WHERE one.limit_key = asked.limit_key AND one.state = 'blocked' AND one.pending = 0
        LIMIT :cap::int
    ) AS counted),
    (SELECT {micros(min(first.run_at))} FROM (
        SELECT (
            SELECT one.run_at FROM {live} AS one
            WHERE one.limit_key = asked.limit_key AND one.priority = level.priority AND one.state = 'blocked'
                AND one.pending = 0
            ORDER BY one.run_at
            LIMIT 1
        ) AS run_at
        FROM (
            WITH RECURSIVE level (priority) AS (
                SELECT (
                    SELECT live.priority FROM {live} AS live
                    WHERE live.limit_key = asked.limit_key AND live.state = 'blocked' AND live.pending = 0
                    ORDER BY live.priority
                    LIMIT 1
                )
                UNION ALL
                SELECT (
                    SELECT live.priority FROM {live} AS live
                    WHERE live.limit_key = asked.limit_key AND live.state = 'blocked' AND live.pending = 0
                        AND live.priority > level.priority
                    ORDER BY live.priority
                    LIMIT 1
                )
                FROM level
                WHERE level.priority IS NOT NULL
            )
            SELECT priority FROM level
        ) AS level
    ) AS first)
FROM (
    WITH asked (limit_key) AS (:keys::texts)
    SELECT limit_key FROM asked
) AS asked
