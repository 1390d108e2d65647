-- name: find_last_knower
-- Its lease ends when a worker retires or falls silent.
SELECT CAST(date_part('epoch', :now::clock - max(least(lease_until, :now::clock))) * 1000000 AS bigint)
FROM {workers}
WHERE info -> 'job_types' @> to_jsonb(:job_type::text)
