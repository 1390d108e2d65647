-- name: lock_pending_ends
SELECT {+ended_columns} FROM {ended} WHERE id IN (:ids::ids) AND flow > 0
ORDER BY id
FOR UPDATE SKIP LOCKED

-- name: mark_followed_up
UPDATE {ended} SET flow = {+after_follow_up} WHERE id IN (:ids::ids) AND flow > 0
RETURNING CAST(id AS text)
