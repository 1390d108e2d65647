-- name: put_breaker
WITH {+clock},
made AS (
    {+breaker_put}
),
event AS (
    INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
    SELECT now, :event::text, :actor_type::text, :actor_id::text, :detail::json FROM made, clock
    WHERE :event::text IS NOT NULL
)
SELECT * FROM made
