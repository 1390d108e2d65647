-- name: list_queues
SELECT {+queue_columns} FROM {queues} WHERE name > :after::text ORDER BY name LIMIT :limit::int

-- name: get_queue
SELECT {+queue_columns} FROM {queues} WHERE name = :queue::text

-- fragment: queue_columns
name, {text(settings)}, {text(override)}, reason, actor_type, actor_id, {micros(set_at)}, paid_at, {micros(:now::clock)}

-- fragment: policy_queues
SELECT 'policy', name, NULL, NULL, NULL, NULL FROM {queues}
WHERE {text(settings)} <> '{}' OR override IS NOT NULL

-- name: note_turn
-- Only the claim that holds the lock of the row runs this.
UPDATE {queues} SET paid_at = :paid_at::int, turn = :turn::text WHERE name = :queue::text
RETURNING name

-- fragment: ready_levels
-- The priorities that ready jobs of the queue have, with one probe of the index each, and null at the end.
SELECT (
    SELECT live.priority FROM {live} AS live
    WHERE live.state = 'queued' AND live.queue = :queue::text
    ORDER BY live.priority
    LIMIT 1
)
UNION ALL
SELECT (
    SELECT live.priority FROM {live} AS live
    WHERE live.state = 'queued' AND live.queue = :queue::text AND live.priority > level.priority
    ORDER BY live.priority
    LIMIT 1
)
FROM level
WHERE level.priority IS NOT NULL

-- name: find_orgs
-- plan: steady
-- Steps from org to org, with one index probe each: from the org whose turn it is to the last, then from the first.
SELECT org_id FROM (
    WITH RECURSIVE later AS (
        SELECT (
            SELECT {+fair_org} FROM {live}
            WHERE {+fair_jobs} AND {+fair_org} >= :first::text
            ORDER BY {+fair_org}
            LIMIT 1
        ) AS org_id, 1 AS place
        UNION ALL
        SELECT (
            SELECT {+fair_org} FROM {live}
            WHERE {+fair_jobs} AND {+fair_org} > later.org_id
            ORDER BY {+fair_org}
            LIMIT 1
        ), later.place + 1
        FROM later
        WHERE later.org_id IS NOT NULL AND later.place < :limit::int
    ),
    earlier AS (
        SELECT (
            SELECT {+fair_org} FROM {live}
            WHERE {+fair_jobs} AND {+fair_org} < :first::text
            ORDER BY {+fair_org}
            LIMIT 1
        ) AS org_id, 1 AS place
        UNION ALL
        SELECT (
            SELECT {+fair_org} FROM {live}
            WHERE {+fair_jobs} AND {+fair_org} > earlier.org_id AND {+fair_org} < :first::text
            ORDER BY {+fair_org}
            LIMIT 1
        ), earlier.place + 1
        FROM earlier
        WHERE earlier.org_id IS NOT NULL AND earlier.place < :limit::int
    )
    SELECT org_id FROM later WHERE org_id IS NOT NULL
    UNION ALL
    SELECT org_id FROM earlier WHERE org_id IS NOT NULL
    UNION ALL
    -- Ordered as only the index of fair jobs is: else a planner that expects no such jobs reads the jobs of all orgs.
    SELECT NULL WHERE (
        SELECT 1 FROM {live}
        WHERE {+fair_jobs} AND {+fair_org} IS NULL
        ORDER BY {+fair_org}, priority
        LIMIT 1
    ) IS NOT NULL
) AS found
