-- name: set_org
-- SQLite has no policies, and is never asked.
SELECT :org, :local FROM {live} LIMIT 0
