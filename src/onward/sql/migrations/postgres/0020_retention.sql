-- Vacuum by what a table is for. A setting locks out another vacuum only, neither readers nor writers.
DO $$
DECLARE
    one record;
BEGIN
    -- Few rows, written again and again: a vacuum costs nothing there, and what is dead is walked over by everyone.
    FOR one IN
        SELECT to_regclass('{prefix}' || name) AS tab
        FROM unnest(ARRAY['workers', 'leaders', 'slots', 'limits', 'breakers', 'budgets', 'schedules', 'sealing']) AS name
        WHERE to_regclass('{prefix}' || name) IS NOT NULL
    LOOP
        EXECUTE format(
            'ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200,'
            ' autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 200)', one.tab
        );
    END LOOP;
    -- Many rows, of which the old ones are removed: by default a fifth would have to be dead.
    FOR one IN
        SELECT to_regclass('{prefix}' || name) AS tab
        FROM unnest(ARRAY['keys', 'effects', 'attempts', 'followers', 'alerted', 'awaited', 'signals', 'schedule_runs']) AS name
        WHERE to_regclass('{prefix}' || name) IS NOT NULL
        UNION ALL
        SELECT CAST(inhrelid AS regclass) FROM pg_inherits WHERE inhparent = to_regclass('{ended}')
    LOOP
        EXECUTE format(
            'ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)', one.tab
        );
    END LOOP;
    -- Only added to: without a vacuum no index is read by itself, and all of it is frozen at once one day.
    IF CAST(current_setting('server_version_num') AS integer) >= 130000 THEN
        FOR one IN
            SELECT to_regclass('{prefix}' || name) AS tab FROM unnest(ARRAY['audit', 'chain', 'usage']) AS name
        LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_insert_scale_factor = 0.02)', one.tab);
        END LOOP;
    END IF;
END
$$;

-- Makes the partitions of the months to come, and drops those of the past that are empty; tells what it did, and what
-- it could not do now: it never waits for a lock for longer than half a second, since others would wait behind it.
CREATE FUNCTION {prefix}tend_partitions(at timestamptz, ahead integer, OUT done text, OUT name text, OUT detail text)
RETURNS SETOF record
LANGUAGE plpgsql
SET lock_timeout = '500ms'
AS $$
DECLARE
    month timestamptz := date_trunc('month', at, 'UTC');
    low uuid;
    high uuid;
    moving bigint;
    old record;
BEGIN
    FOR i IN 0..ahead LOOP
        name := 'ended_' || to_char(month AT TIME ZONE 'UTC', 'YYYYMM');
        low := CAST(lpad(to_hex(CAST(extract(epoch FROM month) * 1000 AS bigint)), 12, '0') || repeat('0', 20) AS uuid);
        month := month + interval '1 month';
        high := CAST(lpad(to_hex(CAST(extract(epoch FROM month) * 1000 AS bigint)), 12, '0') || repeat('0', 20) AS uuid);
        CONTINUE WHEN to_regclass('{prefix}' || name) IS NOT NULL;
        BEGIN
            SELECT count(*) INTO moving FROM (
                SELECT FROM {prefix}ended_rest AS rest WHERE rest.id >= low AND rest.id < high LIMIT 10001
            ) AS found;
            IF moving > 10000 THEN
                RAISE 'more than 10000 of its jobs are in ended_rest' USING ERRCODE = 'program_limit_exceeded';
            END IF;
            -- First the whole, then its parts, as everyone does. Whoever reads and writes goes on, but for the rest.
            LOCK TABLE ONLY {ended} IN SHARE UPDATE EXCLUSIVE MODE;
            LOCK TABLE {prefix}ended_rest IN ACCESS EXCLUSIVE MODE;
            -- Made apart and then attached: to make it as a part would lock out everyone from the whole.
            EXECUTE format(
                'CREATE TABLE {prefix}%I (LIKE {ended} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)'
                ' WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)', name
            );
            EXECUTE format(
                'WITH moved AS (DELETE FROM {prefix}ended_rest WHERE id >= $1 AND id < $2 RETURNING *)'
                ' INSERT INTO {prefix}%I SELECT * FROM moved', name
            ) USING low, high;
            EXECUTE format(
                'ALTER TABLE {ended} ATTACH PARTITION {prefix}%I FOR VALUES FROM (%L) TO (%L)', name, low, high
            );
            done := 'made';
            detail := moving;
        EXCEPTION
            WHEN program_limit_exceeded THEN
                done := 'failed';
                detail := SQLERRM;
            WHEN lock_not_available OR insufficient_privilege OR deadlock_detected THEN
                done := 'failed';
                detail := SQLERRM;
                RETURN NEXT;
                -- The others would fail as well, after as long a wait.
                EXIT;
        END;
        RETURN NEXT;
    END LOOP;
    FOR old IN
        SELECT part.oid, part.relname FROM pg_inherits AS one JOIN pg_class AS part ON part.oid = one.inhrelid
        WHERE one.inhparent = to_regclass('{ended}') AND part.relname ~ '^ended_[0-9]+$'
            AND CAST(right(part.relname, 6) AS integer)
                < CAST(to_char(date_trunc('month', at, 'UTC') AT TIME ZONE 'UTC' - interval '2 months', 'YYYYMM') AS integer)
            -- One that a vacuum has not cut short yet would have to be read to see that it is empty.
            AND pg_relation_size(part.oid) < 8388608
        ORDER BY part.relname
    LOOP
        name := old.relname;
        BEGIN
            EXECUTE format('SELECT count(*) FROM (SELECT FROM {prefix}%I LIMIT 1) AS any_job', name) INTO moving;
            CONTINUE WHEN moving > 0;
            LOCK TABLE ONLY {ended} IN ACCESS EXCLUSIVE MODE;
            EXECUTE format('SELECT count(*) FROM (SELECT FROM {prefix}%I LIMIT 1) AS any_job', name) INTO moving;
            CONTINUE WHEN moving > 0;
            EXECUTE format('DROP TABLE {prefix}%I', name);
            done := 'dropped';
            detail := NULL;
        EXCEPTION WHEN lock_not_available OR insufficient_privilege OR deadlock_detected THEN
            done := 'failed';
            detail := SQLERRM;
            RETURN NEXT;
            EXIT;
        END;
        RETURN NEXT;
    END LOOP;
    -- A new table has the protection of the others.
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('{live}')) THEN
        PERFORM {prefix}protect_orgs(true);
    END IF;
END
$$;
