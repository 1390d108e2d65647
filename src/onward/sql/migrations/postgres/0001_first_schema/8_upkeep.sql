-- Settings, the table of versions, partitions, row-level security, grants.

-- Values of the whole installation. `installation` separates the files of two databases that share a directory.
CREATE TABLE {settings} (
    name text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO {settings} (name, value) VALUES ('installation', replace(CAST(gen_random_uuid() AS text), '-', ''));

-- The migrations that were applied; each adds its own row as its last statement.
CREATE TABLE {migrations} (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Creates the partitions of the coming months and drops empty ones of the past. Returns what was done, and what could
-- not be done now: it waits at most half a second for a lock, because other sessions would queue behind it.
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
            -- The parent before its partitions, as every statement locks them. Only ended_rest is closed to others.
            LOCK TABLE ONLY {ended} IN SHARE UPDATE EXCLUSIVE MODE;
            LOCK TABLE {prefix}ended_rest IN ACCESS EXCLUSIVE MODE;
            -- Created separately and then attached: PARTITION OF would lock out every other session from the parent.
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
                -- The others would fail as well, after the same wait.
                EXIT;
        END;
        RETURN NEXT;
    END LOOP;
    FOR old IN
        SELECT part.oid, part.relname FROM pg_inherits AS one JOIN pg_class AS part ON part.oid = one.inhrelid
        WHERE one.inhparent = to_regclass('{ended}') AND part.relname ~ '^ended_[0-9]+$'
            AND CAST(right(part.relname, 6) AS integer)
                < CAST(to_char(date_trunc('month', at, 'UTC') AT TIME ZONE 'UTC' - interval '2 months', 'YYYYMM') AS integer)
            -- A large partition would have to be read to see that it is empty; a vacuum makes it small first.
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
    -- A new table gets the protection of the others.
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('{live}')) THEN
        PERFORM {prefix}protect_orgs(true);
    END IF;
END
$$;

-- This month and three ahead, and no more: a statement that reads `ended` without an id opens every partition with all
-- its indexes, once in each connection. With a year of empty months that took 30 ms.
SELECT {prefix}tend_partitions(clock_timestamp(), 3);

-- Row-level security, off until it is enabled: a second separation of orgs, behind the one in every statement.
-- A role that owns nothing sees the rows of the org in its session's setting `{prefix}org`; where that is unset or
-- empty, the rows that have no org. The owner of the tables, and roles with BYPASSRLS, see all.
-- Deny by default: a table that is in no case below shows nothing and accepts nothing. A table that is protected
-- already is left alone, so that a call after new tables were created locks only those.
CREATE FUNCTION {prefix}protect_orgs(enable boolean) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    own CONSTANT text := 'coalesce(current_setting(''{prefix}org'', true), '''')';
    one record;
BEGIN
    IF enable AND current_setting('server_version_num')::int < 150000 THEN
        RAISE 'row-level security needs PostgreSQL 15: before, a view showed all that its owner may see'
            USING ERRCODE = 'feature_not_supported';
    END IF;
    FOR one IN
        SELECT c.oid::regclass AS tab, c.oid, c.relname AS name FROM pg_class AS c
        WHERE c.relnamespace = '{channel}'::regnamespace AND c.relkind IN ('r', 'p') AND c.relrowsecurity <> enable
        ORDER BY c.relname
    LOOP
        EXECUTE format('DROP POLICY IF EXISTS of_one_org ON %s', one.tab);
        EXECUTE format('DROP POLICY IF EXISTS for_all ON %s', one.tab);
        IF NOT enable THEN
            EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', one.tab);
            CONTINUE;
        END IF;
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', one.tab);
        IF one.name = 'dead_letters' THEN
            -- Only a session that sees the job may resolve its death.
            EXECUTE format(
                'CREATE POLICY of_one_org ON %1$s USING (coalesce(org_id, '''') = %2$s)'
                ' WITH CHECK (coalesce(org_id, '''') = %2$s'
                ' AND (EXISTS (SELECT FROM {live} AS job WHERE job.id = %1$s.job_id)'
                ' OR EXISTS (SELECT FROM {ended} AS job WHERE job.id = %1$s.job_id)))',
                one.tab, own
            );
        ELSIF one.name = 'workers' THEN
            -- Workers of all orgs are seen by every org, and changed by none: an enqueue looks for idle ones.
            EXECUTE format('CREATE POLICY of_one_org ON %s USING (org_id = %s)', one.tab, own);
            EXECUTE format('CREATE POLICY for_all ON %s FOR SELECT USING (org_id IS NULL)', one.tab);
        ELSIF EXISTS (SELECT FROM pg_attribute WHERE attrelid = one.oid AND attname = 'org_id' AND NOT attisdropped) THEN
            EXECUTE format('CREATE POLICY of_one_org ON %s USING (coalesce(org_id, '''') = %s)', one.tab, own);
        ELSIF EXISTS (SELECT FROM pg_attribute WHERE attrelid = one.oid AND attname = 'job_id' AND NOT attisdropped) THEN
            -- The policies of `live` and `ended` apply in here as well.
            EXECUTE format(
                'CREATE POLICY of_one_org ON %1$s USING (EXISTS (SELECT FROM {live} AS job WHERE job.id = %1$s.job_id)'
                ' OR EXISTS (SELECT FROM {ended} AS job WHERE job.id = %1$s.job_id))',
                one.tab
            );
        ELSIF one.name = 'controls' THEN
            EXECUTE format('CREATE POLICY of_one_org ON %s USING (scope = ''org'' AND name = %s)', one.tab, own);
            EXECUTE format('CREATE POLICY for_all ON %s FOR SELECT USING (scope <> ''org'')', one.tab);
        ELSIF one.name IN ('queues', 'migrations') THEN
            EXECUTE format('CREATE POLICY for_all ON %s FOR SELECT USING (true)', one.tab);
        ELSIF one.name = 'settings' THEN
            EXECUTE format('CREATE POLICY for_all ON %s FOR SELECT USING (name = ''installation'')', one.tab);
        END IF;
    END LOOP;
    FOR one IN
        SELECT c.oid::regclass AS tab FROM pg_class AS c
        WHERE c.relnamespace = '{channel}'::regnamespace AND c.relkind = 'v'
            AND ('security_invoker=true' = ANY (coalesce(c.reloptions, '{}'))) <> enable
    LOOP
        EXECUTE format('ALTER VIEW %s SET (security_invoker = %s)', one.tab, enable);
    END LOOP;
END
$$;

-- Grants a role what it needs to use Onward for one org: to enqueue, read, cancel, pause, and work on the jobs of the
-- org. Call it again after a migration that created tables.
CREATE FUNCTION {prefix}grant_to(role text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    one record;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA {channel} TO %I', role);
    -- Without reading `info`, which describes the machine of a worker.
    EXECUTE format(
        'GRANT SELECT (id, org_id, project_id, lease_until, idle_since, lost_at), INSERT,'
        ' UPDATE (seen_at, lease_until, idle_since, lost_at) ON {workers} TO %I', role
    );
    EXECUTE format('GRANT SELECT (name, settings, override) ON {queues} TO %I', role);
    FOR one IN
        SELECT * FROM (VALUES
            ('live', 'SELECT, INSERT, UPDATE, DELETE'),
            ('ended', 'SELECT, INSERT, UPDATE, DELETE'),
            ('keys', 'SELECT, INSERT, UPDATE, DELETE'),
            ('reruns', 'SELECT, INSERT, UPDATE, DELETE'),
            ('controls', 'SELECT, INSERT, UPDATE, DELETE'),
            ('artifacts', 'SELECT, INSERT, UPDATE, DELETE'),
            ('effects', 'SELECT, INSERT, UPDATE, DELETE'),
            ('followers', 'SELECT, INSERT, UPDATE, DELETE'),
            ('batches', 'SELECT, INSERT, UPDATE'),
            ('signals', 'SELECT, INSERT, UPDATE, DELETE'),
            ('awaited', 'SELECT, INSERT, UPDATE, DELETE'),
            ('attempts', 'SELECT, INSERT, DELETE'),
            ('dead_letters', 'SELECT, INSERT, DELETE'),
            ('audit', 'SELECT, INSERT'),
            ('usage', 'SELECT'),
            ('budgets', 'SELECT'),
            ('settings', 'SELECT'),
            ('migrations', 'SELECT'),
            ('jobs', 'SELECT'),
            ('ledger', 'SELECT')
        ) AS known (name, rights)
        WHERE to_regclass('{prefix}' || name) IS NOT NULL
    LOOP
        EXECUTE format('GRANT %s ON {prefix}%I TO %I', one.rights, one.name, role);
    END LOOP;
END
$$;
