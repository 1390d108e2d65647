-- name: tables_exist
SELECT 1 FROM sqlite_master WHERE name = :table
