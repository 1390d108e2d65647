-- fragment: effect_columns
{text(job_id)}, name, kind, state, payload_hash, generation, {text(result)}, lease, attempt, {micros(begun_at)},
{micros(done_at)}

-- fragment: new_effect
job_id, name, kind, state, payload_hash, generation, result, lease, attempt, begun_at, done_at

-- fragment: effect_begun_again
-- Where the effect is done, the row is written with its own values, which locks it and returns its newest version.
kind = CASE WHEN {+effect_is_done} THEN effect.kind ELSE 'once' END,
state = CASE WHEN {+effect_is_done} THEN effect.state ELSE 'begun' END,
payload_hash = excluded.payload_hash,
generation = effect.generation + CASE WHEN effect.payload_hash = excluded.payload_hash THEN 0 ELSE 1 END,
result = CASE WHEN {+effect_is_done} THEN effect.result END,
lease = CASE WHEN {+effect_is_done} THEN effect.lease ELSE excluded.lease END,
attempt = CASE WHEN {+effect_is_done} THEN effect.attempt ELSE excluded.attempt END,
begun_at = CASE WHEN effect.state <> 'reset' AND effect.payload_hash = excluded.payload_hash
    THEN effect.begun_at ELSE excluded.begun_at END,
done_at = CASE WHEN {+effect_is_done} THEN effect.done_at END

-- fragment: effect_is_done
effect.state = 'done' AND effect.payload_hash = excluded.payload_hash

-- fragment: effect_kept
kind = excluded.kind, state = 'done', payload_hash = excluded.payload_hash, generation = excluded.generation,
result = excluded.result, lease = excluded.lease, attempt = excluded.attempt, done_at = excluded.done_at

-- name: read_effect
SELECT {+effect_columns} FROM {effects}
WHERE job_id = :job_id::id AND name = :name::text AND {+job_in_scope}

-- name: list_effects
SELECT {+effect_columns} FROM {effects}
WHERE job_id = :job_id::id AND name > :after::text AND {+job_in_scope}
ORDER BY name
LIMIT :limit::int
