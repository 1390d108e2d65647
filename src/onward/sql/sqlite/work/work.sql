-- name: extend_worker
UPDATE {workers}
SET seen_at = :now, lease_until = :now + :lease, idle_since = CASE WHEN :idle = 1 THEN coalesce(idle_since, :now) END
WHERE id = :worker AND lost_at IS NULL AND {+in_scope};
SELECT live.id, live.lease, live.cancel_requested_at IS NOT NULL
FROM {workers} AS me
LEFT JOIN {live} AS live ON live.worker_id = me.id AND live.state = 'running' AND {scope(live)}
WHERE me.id = :worker AND me.lost_at IS NULL AND {scope(me)}

-- name: claim_jobs
-- One row of nulls means that the worker has no right to claim. The audit lists what was claimed, and where claims are
-- not audited the table {claimed} does. `seq > CASE changes() …` selects the rows of the last INSERT: a later UPDATE of
-- as many rows does not alter that, and an INSERT of no rows leaves the number of another table. Large jobs are packed
-- each by itself, because SQLite makes no value of more than a gigabyte. The last DELETE has a condition that always
-- holds: without one, even an empty table is written.
-- when audited >= 2
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.started', id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id,
    attempt + 1, lease + 1, :worker, NULL
FROM {live}
WHERE queue = :queue AND state = 'queued'
    AND EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now)
ORDER BY priority, run_at, id
LIMIT :limit;
-- when audited >= 2
UPDATE {live}
SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker, started_at = :now
WHERE id IN (
    SELECT job_id FROM {audit}
    WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
);
-- when audited >= 2
-- packed
SELECT json_group_array(json_array({returned_columns}))
FROM (
    SELECT job_id FROM {audit}
    WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
) CROSS JOIN {live} ON id = job_id
WHERE NOT length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000
UNION ALL
SELECT json_array(json_array({returned_columns}))
FROM (
    SELECT job_id FROM {audit}
    WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
) CROSS JOIN {live} ON id = job_id
WHERE length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000
UNION ALL
SELECT json_array(json_array({job_nulls}))
WHERE NOT EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now);
-- when audited < 2
INSERT INTO {claimed} (job_id) SELECT id FROM {live}
WHERE queue = :queue AND state = 'queued'
    AND EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now)
ORDER BY priority, run_at, id
LIMIT :limit;
-- when audited < 2
UPDATE {live}
SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker, started_at = :now
WHERE id IN (SELECT job_id FROM {claimed});
-- when audited < 2
-- packed
SELECT json_group_array(json_array({returned_columns}))
FROM {claimed} CROSS JOIN {live} ON id = job_id
WHERE NOT length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000
UNION ALL
SELECT json_array(json_array({returned_columns}))
FROM {claimed} CROSS JOIN {live} ON id = job_id
WHERE length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000
UNION ALL
SELECT json_array(json_array({job_nulls}))
WHERE NOT EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now);
-- when audited < 2
DELETE FROM {claimed} WHERE job_id IS NOT NULL

-- name: claim_unpaused_jobs
-- As claim_jobs, but reads past paused jobs, those of other types than `only`, and those of other orgs than the client's,
-- so it is used only when something is paused, for some types, or by a confined client.
-- when audited >= 2
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.started', id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id,
    attempt + 1, lease + 1, :worker, NULL
FROM {live}
WHERE queue = :queue AND state = 'queued' AND job_type NOT IN (:types::texts)
    AND (:only IS NULL OR job_type IN (:only::texts))
    AND (org_id IS NULL OR org_id NOT IN (:orgs::texts)) AND {scope({live})}
    AND EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now AND {scope({workers})})
ORDER BY priority, run_at, id
LIMIT :limit;
-- when audited >= 2
UPDATE {live}
SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker, started_at = :now
WHERE id IN (
    SELECT job_id FROM {audit}
    WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
) AND {scope({live})};
-- when audited >= 2
-- packed
SELECT json_group_array(json_array({returned_columns}))
FROM (
    SELECT job_id FROM {audit}
    WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
) CROSS JOIN {live} ON id = job_id
WHERE NOT length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000 AND {scope({live})}
UNION ALL
SELECT json_array(json_array({returned_columns}))
FROM (
    SELECT job_id FROM {audit}
    WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
) CROSS JOIN {live} ON id = job_id
WHERE length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000 AND {scope({live})}
UNION ALL
SELECT json_array(json_array({job_nulls}))
WHERE NOT EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now AND {scope({workers})});
-- when audited < 2
INSERT INTO {claimed} (job_id) SELECT id FROM {live}
WHERE queue = :queue AND state = 'queued' AND job_type NOT IN (:types::texts)
    AND (:only IS NULL OR job_type IN (:only::texts))
    AND (org_id IS NULL OR org_id NOT IN (:orgs::texts)) AND {scope({live})}
    AND EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now AND {scope({workers})})
ORDER BY priority, run_at, id
LIMIT :limit;
-- when audited < 2
UPDATE {live}
SET state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = :worker, started_at = :now
WHERE id IN (SELECT job_id FROM {claimed}) AND {scope({live})};
-- when audited < 2
-- packed
SELECT json_group_array(json_array({returned_columns}))
FROM {claimed} CROSS JOIN {live} ON id = job_id
WHERE NOT length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000 AND {scope({live})}
UNION ALL
SELECT json_array(json_array({returned_columns}))
FROM {claimed} CROSS JOIN {live} ON id = job_id
WHERE length(payload) + coalesce(length(error), 0) + coalesce(length(progress), 0) > 20000 AND {scope({live})}
UNION ALL
SELECT json_array(json_array({job_nulls}))
WHERE NOT EXISTS (SELECT 1 FROM {workers} WHERE id = :worker AND lost_at IS NULL AND lease_until > :now AND {scope({workers})});
-- when audited < 2
DELETE FROM {claimed} WHERE job_id IS NOT NULL

-- name: finish_jobs
-- The audit comes first and shows which leases were lost; only exceptions are returned. A job whose lease was lost is
-- looked up wherever it is now, and only then, because null equals nothing (`other`, `past`). Below the full audit only
-- lost leases are audited, and the set itself shows which of their jobs have another end that is written. Attempts at
-- which jobs die (`failed`) precede the deaths.
-- when audited >= 2
-- all failed
INSERT INTO {audit} ({+audit_columns}, action)
SELECT
    :now, 'job.failed', live.id, job_type, org_id, project_id, actor_type, actor_id, request_id, correlation_id,
    :failed.attempt, live.lease, worker_id, :failed.detail, :failed.action
FROM :failed::rows AS failed CROSS JOIN {live} AS live ON live.id = :failed.id AND live.lease = :failed.lease;
-- when audited >= 1
-- all ended
INSERT INTO {audit} ({+audit_columns}, action)
SELECT
    :now, CASE WHEN live.id IS NULL THEN 'job.stale_result_rejected' ELSE :ended.event END, :ended.id,
    coalesce(live.job_type, other.job_type, past.job_type), coalesce(live.org_id, other.org_id, past.org_id),
    coalesce(live.project_id, other.project_id, past.project_id),
    coalesce(live.actor_type, other.actor_type, past.actor_type),
    coalesce(live.actor_id, other.actor_id, past.actor_id), coalesce(live.request_id, other.request_id, past.request_id),
    coalesce(live.correlation_id, other.correlation_id, past.correlation_id),
    :ended.attempt, :ended.lease, live.worker_id,
    CASE WHEN live.id IS NOT NULL THEN :ended.detail END, CASE WHEN live.id IS NOT NULL THEN :ended.action END
FROM :ended::rows AS ended LEFT JOIN {live} AS live ON live.id = :ended.id AND live.lease = :ended.lease
LEFT JOIN {live} AS other ON other.id = CASE WHEN live.id IS NULL THEN :ended.id END
LEFT JOIN {ended} AS past ON past.id = CASE WHEN live.id IS NULL THEN :ended.id END;
-- when audited < 1
-- all ended
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.stale_result_rejected', :ended.id,
    coalesce(live.job_type, other.job_type, past.job_type), coalesce(live.org_id, other.org_id, past.org_id),
    coalesce(live.project_id, other.project_id, past.project_id),
    coalesce(live.actor_type, other.actor_type, past.actor_type),
    coalesce(live.actor_id, other.actor_id, past.actor_id), coalesce(live.request_id, other.request_id, past.request_id),
    coalesce(live.correlation_id, other.correlation_id, past.correlation_id),
    :ended.attempt, :ended.lease, NULL, NULL
FROM :ended::rows AS ended LEFT JOIN {live} AS live ON live.id = :ended.id AND live.lease = :ended.lease
LEFT JOIN {live} AS other ON other.id = CASE WHEN live.id IS NULL THEN :ended.id END
LEFT JOIN {ended} AS past ON past.id = CASE WHEN live.id IS NULL THEN :ended.id END
WHERE live.id IS NULL;
-- when audited >= 1
-- all ended
-- packed
SELECT json_group_array(json_array(job_id, 'lost')) FROM {audit}
WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
    AND event = 'job.stale_result_rejected' AND job_id NOT IN (
        -- Not a job whose other end, under its newest lease, is written by the same statement.
        SELECT job_id FROM {audit}
        WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
            AND event <> 'job.stale_result_rejected'
    );
-- when audited < 1
-- all ended
-- packed
SELECT json_group_array(json_array(job_id, 'lost')) FROM {audit}
WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
    AND job_id NOT IN (
        SELECT live.id FROM :ended::rows AS ended CROSS JOIN {live} AS live
        ON live.id = :ended.id AND live.lease = :ended.lease
    );
-- all ended
INSERT INTO {ended} ({carried}, {+end_columns})
SELECT
    {carried live}, :ended.state, :ended.attempt, :ended.waits, :ended.crashes,
    CASE WHEN :ended.state <> 'succeeded' THEN coalesce(:ended.error, live.error) END, :ended.result, :ended.outcome, :now
FROM :ended::rows AS ended CROSS JOIN {live} AS live ON live.id = :ended.id AND live.lease = :ended.lease;
-- all ended
-- packed
SELECT json_group_array(DISTINCT json_array(limit_key, 'permit')) FROM {ended}
WHERE rowid > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
    AND limit_key IS NOT NULL;
-- all ended
DELETE FROM {live} WHERE id IN (
    SELECT id FROM {ended}
    WHERE rowid > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
);
-- Nearly always none. Includes pending follow-up work of other processes, which any process may do.
-- all ended
-- packed
SELECT json_group_array(json_array(id, 'tied')) FROM (
    SELECT id FROM {ended} INDEXED BY {prefix}ended_to_follow_up WHERE flow > 0 LIMIT 500
);
-- when audited >= 2
-- all returned
INSERT INTO {audit} ({+audit_columns}, action)
SELECT
    :now, CASE WHEN live.id IS NULL THEN 'job.stale_result_rejected' ELSE :returned.event END, :returned.id,
    coalesce(live.job_type, other.job_type, past.job_type), coalesce(live.org_id, other.org_id, past.org_id),
    coalesce(live.project_id, other.project_id, past.project_id),
    coalesce(live.actor_type, other.actor_type, past.actor_type),
    coalesce(live.actor_id, other.actor_id, past.actor_id), coalesce(live.request_id, other.request_id, past.request_id),
    coalesce(live.correlation_id, other.correlation_id, past.correlation_id),
    :returned.ran, :returned.lease, live.worker_id,
    CASE WHEN live.id IS NOT NULL THEN :returned.detail END, CASE WHEN live.id IS NOT NULL THEN :returned.action END
FROM :returned::rows AS returned LEFT JOIN {live} AS live ON live.id = :returned.id AND live.lease = :returned.lease
LEFT JOIN {live} AS other ON other.id = CASE WHEN live.id IS NULL THEN :returned.id END
LEFT JOIN {ended} AS past ON past.id = CASE WHEN live.id IS NULL THEN :returned.id END
WHERE live.cancel_requested_at IS NULL;
-- when audited < 2
-- all returned
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.stale_result_rejected', :returned.id,
    coalesce(live.job_type, other.job_type, past.job_type), coalesce(live.org_id, other.org_id, past.org_id),
    coalesce(live.project_id, other.project_id, past.project_id),
    coalesce(live.actor_type, other.actor_type, past.actor_type),
    coalesce(live.actor_id, other.actor_id, past.actor_id), coalesce(live.request_id, other.request_id, past.request_id),
    coalesce(live.correlation_id, other.correlation_id, past.correlation_id),
    :returned.ran, :returned.lease, NULL, NULL
FROM :returned::rows AS returned LEFT JOIN {live} AS live ON live.id = :returned.id AND live.lease = :returned.lease
LEFT JOIN {live} AS other ON other.id = CASE WHEN live.id IS NULL THEN :returned.id END
LEFT JOIN {ended} AS past ON past.id = CASE WHEN live.id IS NULL THEN :returned.id END
WHERE live.id IS NULL;
-- when audited >= 2
-- all returned
-- packed
SELECT json_group_array(json_array(job_id, 'lost')) FROM {audit}
WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
    AND event = 'job.stale_result_rejected' AND job_id NOT IN (
        -- Not a job whose other end, under its newest lease, is written by the same statement.
        SELECT job_id FROM {audit}
        WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
            AND event <> 'job.stale_result_rejected'
    );
-- when audited < 2
-- all returned
-- packed
SELECT json_group_array(json_array(job_id, 'lost')) FROM {audit}
WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
    AND job_id NOT IN (
        SELECT live.id FROM :returned::rows AS returned CROSS JOIN {live} AS live
        ON live.id = :returned.id AND live.lease = :returned.lease
    );
-- all returned
-- packed
SELECT json_group_array(json_array(live.id, 'cancelled'))
FROM :returned::rows AS returned CROSS JOIN {live} AS live ON live.id = :returned.id AND live.lease = :returned.lease
WHERE live.cancel_requested_at IS NOT NULL;
-- all returned
INSERT INTO {attempts} (job_id, lease, attempt, worker_id, started_at, ended_at, outcome, error, cost_micros)
SELECT
    live.id, live.lease, :returned.ran, live.worker_id, live.started_at, :now, :returned.outcome, :returned.error,
    :returned.cost
FROM :returned::rows AS returned CROSS JOIN {live} AS live ON live.id = :returned.id AND live.lease = :returned.lease
WHERE live.cancel_requested_at IS NULL;
-- The lease is raised when a job is released, too: else its last holder could still finish it. No job waits beyond its
-- deadline: it is due then, to die.
-- all returned
UPDATE {live} AS live
SET state = CASE WHEN :returned.delay > 0 THEN :returned.state ELSE 'queued' END, run_at = min(:now + :returned.delay, coalesce(live.deadline, :now + :returned.delay)),
    attempt = :returned.attempt, lease = live.lease + 1, waits = :returned.waits, crashes = :returned.crashes,
    error = coalesce(:returned.error, live.error), progress = NULL
FROM :returned::rows AS returned
WHERE live.id = :returned.id AND live.lease = :returned.lease AND live.cancel_requested_at IS NULL;
-- all returned
-- packed
SELECT json_group_array(json_array(live.limit_key, 'permit'))
FROM :returned::rows AS returned CROSS JOIN {live} AS live ON live.id = :returned.id
WHERE live.limit_key IS NOT NULL AND live.state <> 'running';
-- Jobs that were reset while they ran: they have ended or were released, and start again. Nearly always none.
-- packed
SELECT json_group_array(json_array(id, 'again')) FROM {live} INDEXED BY {prefix}live_rerun
WHERE rerun_requested = 1 AND state <> 'running'
UNION ALL
SELECT json_group_array(json_array(id, 'again')) FROM {ended} INDEXED BY {prefix}ended_rerun WHERE rerun_requested = 1

-- name: finish_alike
-- Jobs that all have the same outcome and the same lease, which is nearly every write. As finish_jobs, with what
-- they share as parameters.
-- when audited >= 1
-- all ended
INSERT INTO {audit} ({+audit_columns}, action)
SELECT
    :now, CASE WHEN live.id IS NULL THEN 'job.stale_result_rejected' ELSE :event END, :ended.id,
    coalesce(live.job_type, other.job_type, past.job_type), coalesce(live.org_id, other.org_id, past.org_id),
    coalesce(live.project_id, other.project_id, past.project_id),
    coalesce(live.actor_type, other.actor_type, past.actor_type),
    coalesce(live.actor_id, other.actor_id, past.actor_id), coalesce(live.request_id, other.request_id, past.request_id),
    coalesce(live.correlation_id, other.correlation_id, past.correlation_id),
    :attempt, :lease, live.worker_id,
    CASE WHEN live.id IS NOT NULL THEN :detail END, CASE WHEN live.id IS NOT NULL THEN :action END
FROM :ended::rows AS ended LEFT JOIN {live} AS live ON live.id = :ended.id AND live.lease = :lease
LEFT JOIN {live} AS other ON other.id = CASE WHEN live.id IS NULL THEN :ended.id END
LEFT JOIN {ended} AS past ON past.id = CASE WHEN live.id IS NULL THEN :ended.id END;
-- when audited < 1
-- all ended
INSERT INTO {audit} ({+audit_columns})
SELECT
    :now, 'job.stale_result_rejected', :ended.id,
    coalesce(live.job_type, other.job_type, past.job_type), coalesce(live.org_id, other.org_id, past.org_id),
    coalesce(live.project_id, other.project_id, past.project_id),
    coalesce(live.actor_type, other.actor_type, past.actor_type),
    coalesce(live.actor_id, other.actor_id, past.actor_id), coalesce(live.request_id, other.request_id, past.request_id),
    coalesce(live.correlation_id, other.correlation_id, past.correlation_id),
    :attempt, :lease, NULL, NULL
FROM :ended::rows AS ended LEFT JOIN {live} AS live ON live.id = :ended.id AND live.lease = :lease
LEFT JOIN {live} AS other ON other.id = CASE WHEN live.id IS NULL THEN :ended.id END
LEFT JOIN {ended} AS past ON past.id = CASE WHEN live.id IS NULL THEN :ended.id END
WHERE live.id IS NULL;
-- when audited >= 1
-- all ended
-- packed
SELECT json_group_array(json_array(job_id, 'lost')) FROM {audit}
WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
    AND event = 'job.stale_result_rejected' AND job_id NOT IN (
        -- Not a job whose other end, under its newest lease, is written by the same statement.
        SELECT job_id FROM {audit}
        WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
            AND event <> 'job.stale_result_rejected'
    );
-- when audited < 1
-- all ended
-- packed
SELECT json_group_array(json_array(job_id, 'lost')) FROM {audit}
WHERE seq > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
    AND job_id NOT IN (
        SELECT live.id FROM :ended::rows AS ended CROSS JOIN {live} AS live
        ON live.id = :ended.id AND live.lease = :lease
    );
-- all ended
INSERT INTO {ended} ({carried}, {+end_columns})
SELECT
    {carried live}, :state, :attempt, :waits, :crashes,
    CASE WHEN :state <> 'succeeded' THEN coalesce(:error, live.error) END, :result, :outcome, :now
FROM :ended::rows AS ended CROSS JOIN {live} AS live ON live.id = :ended.id AND live.lease = :lease;
-- all ended
-- packed
SELECT json_group_array(DISTINCT json_array(limit_key, 'permit')) FROM {ended}
WHERE rowid > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
    AND limit_key IS NOT NULL;
-- all ended
DELETE FROM {live} WHERE id IN (
    SELECT id FROM {ended}
    WHERE rowid > CASE changes() WHEN 0 THEN 9223372036854775807 ELSE last_insert_rowid() - changes() END
);
-- Nearly always none. Includes pending follow-up work of other processes, which any process may do.
-- all ended
-- packed
SELECT json_group_array(json_array(id, 'tied')) FROM (
    SELECT id FROM {ended} INDEXED BY {prefix}ended_to_follow_up WHERE flow > 0 LIMIT 500
);
-- Jobs that were reset while they ran: they have ended or were released, and start again. Nearly always none.
-- packed
SELECT json_group_array(json_array(id, 'again')) FROM {live} INDEXED BY {prefix}live_rerun
WHERE rerun_requested = 1 AND state <> 'running'
UNION ALL
SELECT json_group_array(json_array(id, 'again')) FROM {ended} INDEXED BY {prefix}ended_rerun WHERE rerun_requested = 1
