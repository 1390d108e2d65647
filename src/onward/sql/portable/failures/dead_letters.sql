-- fragment: letter_columns
letter.lease, letter.resolution, {micros(letter.at)}, letter.actor_type, letter.actor_id, letter.reason,
{text(letter.successor_id)}, {text(letter.diff)}

-- fragment: dead_ones
FROM {ended} AS ended LEFT JOIN {dead_letters} AS letter ON letter.job_id = ended.id AND letter.lease = ended.lease
WHERE ended.state = 'dead' AND {scope(ended)}

-- fragment: unresolved
-- An unresolved death. A job that was replayed and died again has another lease.
NOT EXISTS (SELECT 1 FROM {dead_letters} AS letter WHERE letter.job_id = gone.id AND letter.lease = gone.lease)

-- fragment: asked_and_unresolved
gone.id IN (:ids::ids) AND gone.state = 'dead' AND {+in_scope} AND {+unresolved}

-- fragment: own_key
k.org_id = coalesce(gone.org_id, '') AND k.project_id = coalesce(gone.project_id, '') AND k.key = gone.key
AND k.job_id = gone.id

-- fragment: resolution_columns
job_id, lease, org_id, resolution, at, actor_type, actor_id, reason

-- fragment: dead_asked
(:job_type::text IS NULL OR ended.job_type = :job_type::text)
AND (:org_id::text IS NULL OR ended.org_id = :org_id::text)
AND (:subject::text IS NULL OR ended.subject = :subject::text)
AND (:error_class::text IS NULL OR {+class_of} = :error_class::text)

-- fragment: listed
AND {+dead_asked}
AND (:below::text IS NULL OR ended.id < :below::id)
AND (:resolved::int IS NULL OR (:resolved::int = 1) = (letter.job_id IS NOT NULL))
ORDER BY ended.id DESC
LIMIT :limit::int

-- fragment: picked
AND {+dead_asked}
AND (:above::text IS NULL OR ended.id > :above::id)
AND letter.job_id IS NULL
ORDER BY ended.id
LIMIT :limit::int

-- name: list_dead_letters
SELECT {job_columns ended}, {+letter_columns} {+dead_ones} {+listed}

-- name: list_dead_of_group
-- Separate from list_dead_letters, because SQLite uses no index for a parameter that may be null.
SELECT {job_columns ended}, {+letter_columns} {+dead_ones} AND {+group_of} = :group::text {+listed}

-- name: list_dead_of_subject
SELECT {job_columns ended}, {+letter_columns} {+dead_ones} AND ended.subject = :subject::text {+listed}

-- name: pick_dead_letters
SELECT {text(ended.id)} {+dead_ones} {+picked}

-- name: pick_dead_of_group
SELECT {text(ended.id)} {+dead_ones} AND {+group_of} = :group::text {+picked}

-- name: pick_dead_of_subject
SELECT {text(ended.id)} {+dead_ones} AND ended.subject = :subject::text {+picked}

-- fragment: page_of_groups
-- Job type and class are part of the fingerprint, so those of the newest job are those of all.
JOIN {ended} AS ended ON ended.id = newest.id
WHERE (:job_type::text IS NULL OR ended.job_type = :job_type::text)
    AND (:error_class::text IS NULL OR {+class_of} = :error_class::text)
    AND (:below::text IS NULL OR ended.id < :below::id)
ORDER BY ended.id DESC
LIMIT :limit::int

-- name: get_dead_letter
SELECT {job_columns ended}, {+letter_columns}
{+dead_ones} AND ended.id = :id::id

-- name: find_origin
SELECT {job_columns ended}, {+letter_columns}
{+dead_ones} AND letter.successor_id = :id::id

-- name: list_resolutions
SELECT {+letter_columns} FROM {dead_letters} AS letter
WHERE letter.job_id = :id::id AND {+job_in_scope}
ORDER BY letter.lease

-- name: explain_refusals
SELECT {text(live.id)}, live.state, NULL, NULL FROM {live} AS live WHERE live.id IN (:ids::ids) AND {+in_scope}
UNION ALL
SELECT {text(ended.id)}, ended.state, letter.resolution, {text(k.job_id)}
FROM {ended} AS ended
LEFT JOIN {dead_letters} AS letter ON letter.job_id = ended.id AND letter.lease = ended.lease
LEFT JOIN {keys} AS k
    ON k.org_id = coalesce(ended.org_id, '') AND k.project_id = coalesce(ended.project_id, '') AND k.key = ended.key
    AND k.job_id <> ended.id
WHERE ended.id IN (:ids::ids) AND {scope(ended)}
