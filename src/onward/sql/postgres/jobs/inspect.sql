-- name: tables_exist
SELECT 1 WHERE to_regclass(:table::text) IS NOT NULL

-- fragment: has_tags
tags @> :tags::json
