-- name: get_breaker
-- One row even for a breaker that does not exist, because the caller always needs the time.
SELECT {micros(:now::clock)}, breaker.version, {+breaker_columns}
FROM (SELECT :name::text AS asked) AS question LEFT JOIN {breakers} AS breaker ON breaker.name = question.asked

-- name: list_breakers
-- Suspect breakers first: they must not be cut off behind thousands of closed ones.
SELECT {micros(:now::clock)}, breaker.rank, {+breaker_columns}
FROM (
    SELECT *, CASE WHEN state = 'open' THEN 0 WHEN failures > 0 THEN 1 ELSE 2 END AS rank FROM {breakers}
) AS breaker
WHERE (breaker.rank, breaker.name) > (:after_rank::int, :after_name::text)
ORDER BY breaker.rank, breaker.name
LIMIT :limit::int

-- fragment: breaker_columns
-- Without the table's name, which SQLite does not know in the RETURNING of an insert.
name, state, failures, failed_jobs, {micros(counted_from)}, {micros(opened_at)}, {micros(until)}, holds, probe,
{micros(probe_until)}, forced, reason, actor_type, actor_id

-- fragment: suspect_breakers
-- How long each still holds: null without an end, zero or less for a breaker that lets one job through.
SELECT
    'breaker', breaker.name, NULL, NULL, NULL,
    CASE
        WHEN breaker.state = 'closed' THEN 0
        ELSE {micros(breaker.until)} - {micros(:now::clock)}
    END
FROM {breakers} AS breaker
WHERE breaker.state = 'open' OR breaker.failures > 0

-- fragment: breaker_put
-- Guarded by the version that was read: of two writers that read the same version, the second changes nothing and
-- reads again.
INSERT INTO {breakers} AS breaker (
    name, version, state, failures, failed_jobs, counted_from, opened_at, until, holds, probe, probe_until, forced,
    reason, actor_type, actor_id
)
VALUES (
    :name::text, :version::int + 1, :state::text, :failures::int, :failed_jobs::text,
    {instant(:counted_from::int)}, {instant(:opened_at::int)}, {instant(:until::int)}, :holds::int, :probe::text, {instant(:probe_until::int)},
    :forced::int, :reason::text, CASE WHEN :forced::int = 1 THEN :actor_type::text END,
    CASE WHEN :forced::int = 1 THEN :actor_id::text END
)
ON CONFLICT (name) DO UPDATE
SET version = excluded.version, state = excluded.state, failures = excluded.failures,
    failed_jobs = excluded.failed_jobs, counted_from = excluded.counted_from, opened_at = excluded.opened_at, until = excluded.until,
    holds = excluded.holds, probe = excluded.probe, probe_until = excluded.probe_until, forced = excluded.forced,
    reason = excluded.reason, actor_type = excluded.actor_type, actor_id = excluded.actor_id
WHERE breaker.version = :version::int
RETURNING {+breaker_columns}
