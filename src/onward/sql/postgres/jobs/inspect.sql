-- name: tables_exist
SELECT 1 WHERE to_regclass(:table::text) IS NOT NULL
