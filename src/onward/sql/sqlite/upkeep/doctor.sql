-- fragment: in_ready_levels
IN (
    WITH RECURSIVE level (priority) AS (
        {+ready_levels}
    )
    SELECT priority FROM level
)

-- fragment: error_class
json_extract(error, '$.error_class')

-- name: inspect_database
SELECT sqlite_version(), (SELECT max(version) FROM {migrations}), NULL, NULL, NULL, NULL, NULL

-- name: check_integrity
-- Reads every page of our tables and their indexes.
SELECT checked.quick_check
FROM sqlite_master AS made CROSS JOIN pragma_quick_check(made.name) AS checked
WHERE made.type = 'table' AND made.name GLOB '{prefix}*' AND checked.quick_check <> 'ok'
LIMIT :limit
