-- name: find_pending_ends
-- With `patience`, the process that wrote an end is given time to do the follow-up work itself.
SELECT {text(id)} FROM {ended}
WHERE flow > 0 AND (:patience::int = 0 OR ended_at <= {later(:now::clock, -:patience::int)})
LIMIT :limit::int

-- fragment: counted_ties
-- The mark of how its batch counts the job, in place of the mark from before.
CASE WHEN (flow & 2) = 0 THEN flow ELSE
    (flow & ~112) | CASE state WHEN 'succeeded' THEN 16 WHEN 'dead' THEN 32 ELSE 64 END
END

-- fragment: after_follow_up
-- A job that is to be deleted stays marked until it is.
CASE WHEN (flow & 128) <> 0 THEN 128 ELSE -({+counted_ties}) END

-- fragment: ended_columns
{text(id)}, state, outcome, flow, job_type, org_id, {text(batch_id)}, limit_key, {text(error)}, lease, {micros(ended_at)}
