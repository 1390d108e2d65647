-- name: abdicate
DELETE FROM {leaders} WHERE worker_id = :worker::text
RETURNING name
