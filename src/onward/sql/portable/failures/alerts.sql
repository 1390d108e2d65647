-- fragment: newest_alerted
coalesce((SELECT at FROM {alerted} ORDER BY at DESC LIMIT 1), :now::clock)

-- name: find_deaths
-- Starts a little before the newest known death: a death that commits late has an earlier time. A clock that was ahead
-- must not hide deaths that follow its correction.
SELECT
    {text(gone.id)}, gone.lease, {micros(gone.ended_at)}, gone.org_id, gone.job_type, gone.queue, gone.category,
    gone.attempt, gone.max_attempts, {text(gone.error)}
FROM {ended} AS gone
WHERE gone.state = 'dead' AND gone.ended_at >= {+reading_from}
    AND NOT EXISTS (SELECT 1 FROM {alerted} AS seen WHERE seen.job_id = gone.id AND seen.lease = gone.lease)
ORDER BY gone.ended_at
LIMIT :limit::int

-- name: note_look
-- The row with the id of no job: all deaths up to its time are known. Without it, a day on which thousands of jobs died
-- would be read again and again until a job died on another day.
INSERT INTO {alerted} (job_id, lease, at)
VALUES ('00000000-0000-0000-0000-000000000000', 0, :now::clock)
ON CONFLICT (job_id, lease) DO UPDATE SET at = excluded.at
RETURNING 1

-- fragment: is_muted
(alert.muted_at IS NOT NULL AND (alert.muted_until IS NULL OR alert.muted_until > :now::clock))

-- fragment: is_due
-- The first message of an alert is due at once, then one for each span of the throttle.
alert.unsent > 0 AND (alert.sent_at IS NULL OR alert.sent_at <= {later(:now::clock, -:throttle::int)})
AND NOT {+is_muted}

-- fragment: group_columns
fingerprint, source, kind, about, last_job_id, count, unsent, first_at, last_at

-- fragment: add_deaths
ON CONFLICT (fingerprint) DO UPDATE
SET kind = excluded.kind, about = excluded.about, last_job_id = excluded.last_job_id,
    count = alert.count + excluded.count,
    unsent = alert.unsent + CASE WHEN {+is_muted} THEN 0 ELSE excluded.unsent END,
    last_at = excluded.last_at
RETURNING fingerprint

-- fragment: add_finding
-- A finding that persists is reported again after a while, and one that returns is counted again.
ON CONFLICT (fingerprint) DO UPDATE
SET kind = excluded.kind, about = excluded.about, last_at = excluded.last_at, resolved_at = NULL,
    count = alert.count + CASE WHEN alert.resolved_at IS NULL THEN 0 ELSE 1 END,
    unsent = CASE
        WHEN {+is_muted} THEN 0
        WHEN alert.resolved_at IS NOT NULL OR alert.sent_at IS NULL
            OR alert.sent_at <= {later(:now::clock, -:remind::int)} THEN 1
        ELSE alert.unsent
    END
RETURNING fingerprint

-- name: resolve_findings
UPDATE {alerts} SET resolved_at = :now::clock, unsent = 0
WHERE source = 'finding' AND resolved_at IS NULL AND fingerprint NOT IN (:found::texts)
RETURNING fingerprint

-- name: find_due_alerts
-- Runs before anything is written, because there is mostly nothing to send.
SELECT 'alert' WHERE EXISTS (SELECT 1 FROM {alerts} AS alert WHERE {+is_due})
UNION
SELECT send.sink FROM {alert_sends} AS send WHERE send.next_at <= :now::clock AND send.sink IN (:sinks::texts)

-- name: take_due_alerts
UPDATE {alerts} AS alert SET batch = unsent, unsent = 0, sends = sends + 1, sent_at = :now::clock
WHERE {+is_due} AND alert.fingerprint IN (
    SELECT alert.fingerprint FROM {alerts} AS alert WHERE {+is_due} ORDER BY alert.last_at LIMIT :limit::int
)
RETURNING fingerprint, {text(about)}, batch, sends, count, {micros(first_at)}, {micros(last_at)}

-- name: list_sends
SELECT fingerprint, sink, {text(alert)}, tries, {micros(next_at)}, error
FROM {alert_sends}
WHERE fingerprint IN (:fingerprints::texts)
ORDER BY fingerprint, sink

-- fragment: replace_send
ON CONFLICT (fingerprint, sink) DO UPDATE
SET number = excluded.number, alert = excluded.alert, tries = 0, next_at = excluded.next_at, error = NULL
RETURNING fingerprint

-- name: take_send
-- Held while it is sent: the next worker, in this process or another, takes another message.
UPDATE {alert_sends} SET tries = tries + 1, next_at = {later(:now::clock, :hold::int)}
WHERE next_at <= :now::clock AND (fingerprint, sink) IN (
    SELECT fingerprint, sink FROM {alert_sends}
    WHERE sink = :sink::text AND next_at <= :now::clock
    ORDER BY next_at, fingerprint
    LIMIT 1
)
RETURNING fingerprint, sink, number, {text(alert)}, tries

-- name: drop_send
DELETE FROM {alert_sends} WHERE {+this_send}
RETURNING fingerprint

-- name: delay_send
UPDATE {alert_sends} SET error = :error::text, next_at = {later(:now::clock, :wait::int)}
WHERE {+this_send}
RETURNING fingerprint

-- fragment: this_send
-- Not a message that has replaced it meanwhile.
fingerprint = :fingerprint::text AND sink = :sink::text AND number = :number::int

-- name: list_alerts
SELECT
    alert.fingerprint, alert.source, {text(alert.about)}, alert.count, alert.unsent, {micros(alert.first_at)},
    {micros(alert.last_at)}, {micros(alert.sent_at)}, {micros(alert.resolved_at)},
    CASE WHEN {+is_muted} THEN {micros(alert.muted_at)} END, {micros(alert.muted_until)}, alert.mute_reason,
    alert.mute_actor_type, alert.mute_actor_id
FROM {alerts} AS alert
WHERE (:kind::text IS NULL OR alert.kind = :kind::text)
    AND (:before::int IS NULL OR alert.last_at < {instant(:before::int)}
        OR (alert.last_at = {instant(:before::int)} AND alert.fingerprint > :after::text))
ORDER BY alert.last_at DESC, alert.fingerprint
LIMIT :limit::int

-- name: forget_alerted
-- Only deaths that `find_deaths` no longer reads.
DELETE FROM {alerted}
WHERE (job_id, lease) IN (
    SELECT job_id, lease FROM {alerted} WHERE at < {+reading_from} ORDER BY at LIMIT :limit::int
)
RETURNING 1

-- name: forget_alerts
DELETE FROM {alerts}
WHERE fingerprint IN (
    SELECT alert.fingerprint FROM {alerts} AS alert
    WHERE alert.last_at < {later(:now::clock, -:kept::int)} AND NOT {+is_muted}
    LIMIT :limit::int
)
RETURNING fingerprint

-- name: forget_sends
DELETE FROM {alert_sends} WHERE fingerprint NOT IN (SELECT fingerprint FROM {alerts})
RETURNING fingerprint
