-- fragment: reading_from
-- In a sub-select, else the clock would be read for each row and no index could be used.
(SELECT least({+newest_alerted}, :now::clock) - :overlap::int * interval '1 microsecond')

-- name: note_deaths
-- Waits for another writer that has noted one of these deaths, so that each death is in one alert.
INSERT INTO {alerted} (job_id, lease, at)
SELECT id, lease, {instant(at)} FROM :deaths::rows(id uuid, lease bigint, at bigint)
ORDER BY id
ON CONFLICT DO NOTHING
RETURNING CAST(job_id AS text), lease

-- name: raise_alerts
INSERT INTO {alerts} AS alert ({+group_columns})
SELECT
    fingerprint, 'death', kind, about, job_id, count, count, {instant(first_at)}, {instant(last_at)}
FROM :groups::rows(
    fingerprint text, kind text, about jsonb, job_id uuid, count bigint, first_at bigint, last_at bigint
)
ORDER BY fingerprint
{+add_deaths}

-- name: raise_findings
INSERT INTO {alerts} AS alert ({+group_columns})
SELECT fingerprint, 'finding', kind, about, NULL, 1, 1, :now::clock, :now::clock
FROM :findings::rows(fingerprint text, kind text, about jsonb)
ORDER BY fingerprint
{+add_finding}

-- name: add_sends
INSERT INTO {alert_sends} (fingerprint, sink, number, alert, next_at)
SELECT fingerprint, sink, number, alert, :now::clock
FROM :messages::rows(fingerprint text, sink text, number bigint, alert jsonb)
ORDER BY fingerprint, sink
{+replace_send}

-- name: mute_alert
WITH {+clock},
made AS (
    UPDATE {alerts}
    SET muted_at = now, muted_until = {later(now, :length::int)}, mute_reason = :reason::text,
        mute_actor_type = :actor_type::text, mute_actor_id = :actor_id::text, unsent = 0
    FROM clock
    WHERE fingerprint = :fingerprint::text
    RETURNING fingerprint
),
unsaid AS (DELETE FROM {alert_sends} WHERE fingerprint = :fingerprint::text),
{+alert_event}
SELECT fingerprint FROM made

-- name: unmute_alert
WITH {+clock},
made AS (
    UPDATE {alerts} AS alert
    SET muted_at = NULL, muted_until = NULL, mute_reason = NULL, mute_actor_type = NULL, mute_actor_id = NULL
    WHERE fingerprint = :fingerprint::text AND {+is_muted}
    RETURNING fingerprint
),
{+alert_event}
SELECT fingerprint FROM made

-- fragment: alert_event
event AS (
    INSERT INTO {audit} (at, event, actor_type, actor_id, detail)
    SELECT now, :event::text, :actor_type::text, :actor_id::text, :detail::json FROM made, clock
)
