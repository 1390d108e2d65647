-- name: set_org
-- SQLite has no policies; this is never run.
SELECT :org, :local FROM {live} LIMIT 0
