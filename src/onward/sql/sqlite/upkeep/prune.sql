-- fragment: these_jobs
gone.id IN (:ids::ids)

-- name: lock_prunable_jobs
SELECT gone.id, gone.state FROM {ended} AS gone WHERE {+prunable}
ORDER BY gone.id

-- name: prune_jobs
DELETE FROM {attempts} WHERE job_id IN (:ids::ids);
DELETE FROM {dead_letters} WHERE job_id IN (:ids::ids);
DELETE FROM {effects} WHERE job_id IN (:ids::ids);
DELETE FROM {followers} WHERE job_id IN (:ids::ids);
INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
SELECT :now, 'jobs.pruned', :actor_type, :actor_id, :detail
WHERE :audited > 0;
DELETE FROM {ended} WHERE id IN (:ids::ids)
RETURNING id

-- name: tend_partitions
-- SQLite has no partitions.
SELECT name, name, name FROM {settings} WHERE 1 = 0

-- name: inspect_file
SELECT
    (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size),
    (SELECT freelist_count FROM pragma_freelist_count) * (SELECT page_size FROM pragma_page_size),
    NULL, NULL
FROM {settings} WHERE name = 'installation'

-- name: inspect_tables
-- SQLite would read the whole file to measure one table.
SELECT name FROM {settings} WHERE 1 = 0

-- name: inspect_indexes
SELECT name FROM {settings} WHERE 1 = 0
