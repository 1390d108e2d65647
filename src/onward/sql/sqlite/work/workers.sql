-- name: find_last_knower
-- Its lease ends when a worker retires or falls silent.
SELECT :now - max(min(lease_until, :now))
FROM {workers}
WHERE :job_type IN (SELECT value FROM json_each(info, '$.job_types'))
