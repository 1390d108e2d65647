-- name: put_breaker
INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
SELECT :now, :event, :actor_type, :actor_id, :detail
WHERE :event IS NOT NULL
    AND coalesce((SELECT version FROM {breakers} WHERE name = :name), :version) = :version;
{+breaker_put}
