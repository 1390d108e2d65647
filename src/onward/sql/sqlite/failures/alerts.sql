-- fragment: reading_from
(SELECT min({+newest_alerted}, :now) - :overlap)

-- name: note_deaths
-- each deaths
INSERT INTO {alerted} (job_id, lease, at)
VALUES (:deaths.id, :deaths.lease, :deaths.at)
ON CONFLICT DO NOTHING
RETURNING job_id, lease

-- name: raise_alerts
-- each groups
INSERT INTO {alerts} AS alert ({+group_columns})
VALUES (
    :groups.fingerprint, 'death', :groups.kind, :groups.about, :groups.job_id, :groups.count, :groups.count,
    :groups.first_at, :groups.last_at
)
{+add_deaths}

-- name: raise_findings
-- each findings
INSERT INTO {alerts} AS alert ({+group_columns})
VALUES (:findings.fingerprint, 'finding', :findings.kind, :findings.about, NULL, 1, 1, :now, :now)
{+add_finding}

-- name: add_sends
-- each messages
INSERT INTO {alert_sends} (fingerprint, sink, number, alert, next_at)
VALUES (:messages.fingerprint, :messages.sink, :messages.number, :messages.alert, :now)
{+replace_send}

-- name: mute_alert
{+alert_event}
WHERE EXISTS (SELECT 1 FROM {alerts} WHERE fingerprint = :fingerprint);
DELETE FROM {alert_sends} WHERE fingerprint = :fingerprint;
UPDATE {alerts}
SET muted_at = :now, muted_until = :now + :length, mute_reason = :reason, mute_actor_type = :actor_type,
    mute_actor_id = :actor_id, unsent = 0
WHERE fingerprint = :fingerprint
RETURNING fingerprint

-- name: unmute_alert
{+alert_event}
WHERE EXISTS (SELECT 1 FROM {alerts} AS alert WHERE fingerprint = :fingerprint AND {+is_muted});
UPDATE {alerts} AS alert
SET muted_at = NULL, muted_until = NULL, mute_reason = NULL, mute_actor_type = NULL, mute_actor_id = NULL
WHERE fingerprint = :fingerprint AND {+is_muted}
RETURNING fingerprint

-- fragment: alert_event
INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
SELECT :now, :event, :actor_type, :actor_id, :detail
