-- fragment: in_ready_levels
= ANY (ARRAY(
    WITH RECURSIVE level (priority) AS (
        {+ready_levels}
    )
    SELECT priority FROM level
))

-- fragment: error_class
error ->> 'error_class'

-- name: inspect_database
-- A snapshot, a replication slot or a writing transaction keeps every row that died since; only for this database.
SELECT
    split_part(current_setting('server_version'), ' ', 1),
    (SELECT max(version) FROM {migrations}),
    pg_stat_get_live_tuples(hot.oid),
    pg_stat_get_dead_tuples(hot.oid),
    CASE
        WHEN current_setting('autovacuum') = 'on'
            AND NOT coalesce(hot.reloptions && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off'], false)
        THEN 1 ELSE 0
    END,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = :listener::text),
    (SELECT CAST(jsonb_agg(to_jsonb(holder)) AS text) FROM (
        SELECT
            'transaction' AS kind, application_name AS name, pid, state,
            CAST(date_part('epoch', {instant(:now::int)} - xact_start) AS bigint) AS seconds,
            coalesce(age(backend_xmin), age(backend_xid)) AS age
        FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'
            AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR state LIKE 'idle in transaction%')
        UNION ALL
        SELECT 'replication slot', CAST(slot_name AS text), active_pid, NULL, NULL, age(xmin)
        FROM pg_replication_slots WHERE xmin IS NOT NULL
        UNION ALL
        SELECT
            'prepared transaction', gid, NULL, NULL,
            CAST(date_part('epoch', {instant(:now::int)} - prepared) AS bigint), age(transaction)
        FROM pg_prepared_xacts WHERE database = current_database()
        ORDER BY seconds DESC NULLS LAST
        LIMIT 20
    ) AS holder)
FROM pg_class AS hot
WHERE hot.oid = to_regclass('{live}')

-- name: check_integrity
-- An index left invalid by a build that was interrupted: it is kept up to date, but no query uses it.
SELECT 'index ' || CAST(CAST(one.indexrelid AS regclass) AS text) || ' is not valid'
FROM pg_index AS one JOIN pg_class AS indexed ON indexed.oid = one.indrelid
WHERE NOT one.indisvalid
    AND indexed.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('{live}'))
LIMIT :limit::int
