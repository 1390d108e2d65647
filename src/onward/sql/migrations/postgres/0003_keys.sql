-- What became of a key's job, kept for when the job itself is removed before its key.
ALTER TABLE {keys} ADD COLUMN status text, ADD COLUMN result_ref text, ADD COLUMN error_ref text;

-- Also notes when a key was last asked for, if told to: not within a caller's transaction, which would hold it.
DROP FUNCTION {prefix}hold_key;
CREATE FUNCTION {prefix}hold_key(
    IN asked_org text, IN asked_project text, IN asked_key text, IN new_job uuid, IN at timestamptz,
    IN expiry timestamptz, IN note boolean DEFAULT false, OUT job_id uuid, OUT state text
)
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    lapsed timestamptz;
    freed uuid;
BEGIN
    LOOP
        SELECT k.job_id, k.expires_at INTO job_id, lapsed FROM {keys} AS k
        WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key;
        IF FOUND THEN
            SELECT live.state INTO state FROM {live} AS live WHERE live.id = hold_key.job_id;
            IF FOUND OR lapsed > at THEN
                -- Whoever has the key locked knows better; to wait for a mere note would hold up the caller.
                IF note THEN
                    PERFORM FROM {keys} AS k
                    WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key
                    FOR UPDATE SKIP LOCKED;
                    IF FOUND THEN
                        UPDATE {keys} AS k SET last_seen_at = greatest(k.last_seen_at, at)
                        WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key;
                    END IF;
                END IF;
                IF state IS NULL THEN
                    SELECT ended.state INTO state FROM {ended} AS ended WHERE ended.id = hold_key.job_id;
                END IF;
                RETURN;
            END IF;
            -- Locked, and then looked at once more: a job that has ended may be reset, which locks its key first.
            PERFORM FROM {keys} AS k
            WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key
                AND k.job_id = hold_key.job_id AND k.expires_at = lapsed
            FOR UPDATE;
            IF NOT FOUND THEN
                CONTINUE;
            END IF;
            PERFORM FROM {live} AS live WHERE live.id = hold_key.job_id;
            IF FOUND THEN
                CONTINUE;
            END IF;
            UPDATE {keys} AS k SET job_id = new_job, first_seen_at = at, last_seen_at = at, expires_at = expiry,
                status = NULL, result_ref = NULL, error_ref = NULL
            WHERE k.org_id = asked_org AND k.project_id = asked_project AND k.key = asked_key
            RETURNING k.job_id INTO freed;
        ELSE
            INSERT INTO {keys} AS k (org_id, project_id, key, job_id, first_seen_at, last_seen_at, expires_at)
            VALUES (asked_org, asked_project, asked_key, new_job, at, at, expiry)
            ON CONFLICT DO NOTHING
            RETURNING k.job_id INTO freed;
        END IF;
        IF freed IS NOT NULL THEN
            job_id := freed;
            RETURN;
        END IF;
    END LOOP;
END
$$;

-- The next run of a running job that was reset: a table of its own, because nearly no job has one.
CREATE TABLE {reruns} (
    job_id uuid PRIMARY KEY,
    payload jsonb NOT NULL,
    priority smallint NOT NULL,
    max_attempts integer NOT NULL,
    run_at timestamptz NOT NULL,
    deadline timestamptz,
    timeout_micros bigint,
    actor_type text,
    actor_id text,
    request_id text,
    correlation_id text
);

-- The history of a subject; jobs without one cost nothing.
CREATE INDEX live_subject ON {live} (subject, id) WHERE subject IS NOT NULL;
CREATE INDEX ended_subject ON {ended} (subject, id) WHERE subject IS NOT NULL;

-- The ledger of keys, for people and for hand-written SQL; '' stands for no org and no project.
CREATE VIEW {ledger} AS
SELECT
    k.org_id, k.project_id, k.key, k.job_id,
    CASE
        WHEN live.state = 'running' THEN 'running'
        WHEN live.state = 'scheduled' AND live.attempt > 0 THEN 'failed'
        WHEN live.state IS NOT NULL THEN 'pending'
        WHEN ended.state = 'cancelled' THEN 'failed'
        ELSE coalesce(ended.state, k.status)
    END AS status,
    k.first_seen_at, k.last_seen_at, nullif(k.expires_at, 'infinity') AS expires_at,
    CASE WHEN ended.state = 'succeeded' THEN 'job:' || k.job_id ELSE k.result_ref END AS result_ref,
    CASE
        WHEN ended.state IN ('dead', 'cancelled') OR (live.state = 'scheduled' AND live.attempt > 0) THEN 'job:' || k.job_id
        ELSE k.error_ref
    END AS error_ref
FROM {keys} AS k
LEFT JOIN {live} AS live ON live.id = k.job_id
LEFT JOIN {ended} AS ended ON ended.id = k.job_id;
