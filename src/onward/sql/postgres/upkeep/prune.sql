-- fragment: these_jobs
-- By an array, which the planner takes for short: for a join it may read a whole table.
gone.id = ANY (ARRAY(:ids::ids))

-- name: lock_prunable_jobs
-- Locked before they are removed: a job that another session resets or replays now is skipped.
SELECT CAST(gone.id AS text), gone.state FROM {ended} AS gone
WHERE {+prunable}
ORDER BY gone.id
FOR UPDATE OF gone SKIP LOCKED

-- name: prune_jobs
WITH {+clock},
gone AS (
    DELETE FROM {ended} AS gone
    WHERE gone.id = ANY (ARRAY(:ids::ids)) AND gone.id >= :first::id AND gone.id <= :last::id
    RETURNING gone.id
),
runs AS (DELETE FROM {attempts} WHERE job_id = ANY (ARRAY(:ids::ids))),
letters AS (DELETE FROM {dead_letters} WHERE job_id = ANY (ARRAY(:ids::ids))),
done AS (DELETE FROM {effects} WHERE job_id = ANY (ARRAY(:ids::ids))),
edges AS (DELETE FROM {followers} WHERE job_id = ANY (ARRAY(:ids::ids))),
event AS (
    INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
    SELECT now, 'jobs.pruned', :actor_type::text, :actor_id::text, :detail::json
    FROM clock
    WHERE :audited::int > 0
)
SELECT CAST(id AS text) FROM gone

-- name: tend_partitions
SELECT done, name, detail FROM {prefix}tend_partitions(:now::clock, CAST(:ahead::int AS integer))

-- name: inspect_file
SELECT
    pg_database_size(current_database()), 0,
    (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()),
    (SELECT max(age(backend_xmin)) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid())
FROM {settings} WHERE name = 'installation'

-- name: inspect_tables
-- From the statistics, never by counting: to count the rows of a large table takes minutes.
SELECT
    CAST(CAST(one.oid AS regclass) AS text), pg_total_relation_size(one.oid), pg_relation_size(one.oid),
    pg_stat_get_live_tuples(one.oid), pg_stat_get_dead_tuples(one.oid),
    (
        SELECT CAST(sum(known.avg_width * (1 - known.null_frac)) AS bigint) FROM pg_stats AS known
        WHERE known.schemaname = '{channel}' AND known.tablename = one.relname
    ),
    coalesce((
        SELECT CAST(split_part(setting, '=', 2) AS integer) FROM unnest(one.reloptions) AS setting
        WHERE setting LIKE 'fillfactor=%'
    ), 100),
    CAST(date_part('epoch', greatest(
        pg_stat_get_last_vacuum_time(one.oid), pg_stat_get_last_autovacuum_time(one.oid)
    )) * 1000000 AS bigint),
    CAST(date_part('epoch', greatest(
        pg_stat_get_last_analyze_time(one.oid), pg_stat_get_last_autoanalyze_time(one.oid)
    )) * 1000000 AS bigint)
FROM pg_class AS one
WHERE one.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('{live}')) AND one.relkind = 'r'
ORDER BY 2 DESC, 1

-- name: inspect_indexes
SELECT
    CAST(CAST(one.indexrelid AS regclass) AS text), CAST(CAST(one.indrelid AS regclass) AS text),
    pg_relation_size(one.indexrelid), CAST(greatest(made.reltuples, 0) AS bigint),
    -- The statistics of an expression are stored under the name of the index.
    (
        SELECT CAST(sum(known.avg_width) AS bigint)
        FROM pg_attribute AS part
            JOIN pg_stats AS known ON known.schemaname = '{channel}' AND (
                (known.tablename = indexed.relname AND part.attname = known.attname)
                OR (known.tablename = made.relname AND part.attname = known.attname)
            )
        WHERE part.attrelid = one.indexrelid
    )
FROM pg_index AS one
    JOIN pg_class AS made ON made.oid = one.indexrelid
    JOIN pg_class AS indexed ON indexed.oid = one.indrelid
    JOIN pg_am AS kind ON kind.oid = made.relam
WHERE indexed.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('{live}'))
    AND made.relkind = 'i' AND kind.amname = 'btree'
ORDER BY 3 DESC, 1
