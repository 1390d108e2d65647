-- fragment: refused_columns
at, event, job_id, attempt, lease, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id

-- name: last_audit
-- By the sequence, because no index has the highest number; a role without that right reads the rows that it sees.
SELECT coalesce(
    CASE WHEN has_sequence_privilege(numbers, 'USAGE, SELECT') THEN pg_sequence_last_value(numbers)
    ELSE (SELECT max(seq) FROM {audit}) END, 0
)
FROM (SELECT CAST(pg_get_serial_sequence('{audit}', 'seq') AS regclass) AS numbers) AS audit_numbers

-- name: note_audit
-- The job is locked, so that its lease can't be lost before the line is written.
WITH {+clock},
job AS MATERIALIZED (
    SELECT * FROM {live}
    WHERE id = :id::id AND lease = :lease::int AND state = 'running' AND {+in_scope}
    FOR SHARE
),
noted AS (
    INSERT INTO {audit} ({+audit_columns}, action)
    SELECT
        now, 'job.noted', id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id, attempt,
        lease, worker_id, :detail::json, :action::text
    FROM job, clock
    RETURNING seq
),
refused AS (
    INSERT INTO {audit} ({+refused_columns})
    SELECT now, 'job.stale_result_rejected', :id::id, :attempt::int, :lease::int, whose.*
    FROM clock CROSS JOIN LATERAL {prefix}whose(:id::id) AS whose
    WHERE NOT EXISTS (SELECT FROM job) AND {+in_scope}
)
SELECT seq FROM noted

-- name: lock_sealing
-- One session at a time seals or prunes: a second one waits here, and then sees what the first one did.
SELECT
    floor, position, link, seen_seq, seen_xmax, {micros(seen_at)}, {micros(:now::clock)},
    txid_snapshot_xmin(txid_current_snapshot()),
    txid_snapshot_xmax(txid_current_snapshot())
FROM {sealing}
FOR UPDATE

-- name: seal_audit
WITH added AS (
    INSERT INTO {chain} (position, seq, digest, link)
    SELECT position, seq, digest, link
    FROM :links::rows(position bigint, seq bigint, digest text, link text)
    ON CONFLICT DO NOTHING
    RETURNING position
)
SELECT position FROM added

-- name: move_head
UPDATE {sealing}
SET floor = :floor::int, position = :position::int, link = :link::text, seen_seq = :seen_seq::int,
    seen_xmax = :seen_xmax::int, seen_at = {instant(:seen_at::int)}
RETURNING id

-- name: start_pruning
-- For this transaction, until the prune is over.
SELECT set_config('{channel}.pruning', 'on', true)

-- name: end_pruning
SELECT set_config('{channel}.pruning', '', true)

-- name: log_pruned
INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
VALUES (:now::clock, 'audit.pruned', :actor_type::text, :actor_id::text, :detail::json)
RETURNING seq

-- name: prune_audit
WITH gone AS MATERIALIZED (SELECT seq FROM :gone::rows(seq bigint)),
pruned AS (
    DELETE FROM {audit} AS audit USING gone
    WHERE audit.seq = gone.seq AND audit.seq >= :first::int AND audit.seq <= :last::int
    RETURNING audit.seq
),
marked AS (UPDATE {chain} AS sealed SET pruned = :event::int FROM gone WHERE sealed.seq = gone.seq)
SELECT seq FROM pruned
