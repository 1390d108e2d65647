-- name: tables_exist
SELECT 1 FROM sqlite_master WHERE name = :table

-- fragment: has_tags
tags IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM json_each(:tags) AS asked
    WHERE asked.value NOT IN (SELECT own.value FROM json_each(tags) AS own)
)
