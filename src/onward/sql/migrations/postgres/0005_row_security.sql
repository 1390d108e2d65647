-- Row-level security, off until it is asked for: a second wall between orgs, behind the one in every statement.
-- A role that owns nothing sees the rows of the org that its session names in the setting `{prefix}org`; where that
-- is unset or empty, the rows that have no org. The owner of the tables, and roles with BYPASSRLS, see all.
-- Deny by default: a table that is in no case below shows nothing and takes nothing. What is protected already is
-- left alone, so that to run this again after new tables came locks only those.
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
            -- What became of a job is told only by who sees that job.
            EXECUTE format(
                'CREATE POLICY of_one_org ON %1$s USING (coalesce(org_id, '''') = %2$s)'
                ' WITH CHECK (coalesce(org_id, '''') = %2$s'
                ' AND (EXISTS (SELECT FROM {live} AS job WHERE job.id = %1$s.job_id)'
                ' OR EXISTS (SELECT FROM {ended} AS job WHERE job.id = %1$s.job_id)))',
                one.tab, own
            );
        ELSIF EXISTS (SELECT FROM pg_attribute WHERE attrelid = one.oid AND attname = 'org_id' AND NOT attisdropped) THEN
            EXECUTE format('CREATE POLICY of_one_org ON %s USING (coalesce(org_id, '''') = %s)', one.tab, own);
        ELSIF EXISTS (SELECT FROM pg_attribute WHERE attrelid = one.oid AND attname = 'job_id' AND NOT attisdropped) THEN
            -- The policies of the two tables hold in here as well.
            EXECUTE format(
                'CREATE POLICY of_one_org ON %1$s USING (EXISTS (SELECT FROM {live} AS job WHERE job.id = %1$s.job_id)'
                ' OR EXISTS (SELECT FROM {ended} AS job WHERE job.id = %1$s.job_id))',
                one.tab
            );
        ELSIF one.name = 'controls' THEN
            EXECUTE format('CREATE POLICY of_one_org ON %s USING (scope = ''org'' AND name = %s)', one.tab, own);
            EXECUTE format('CREATE POLICY for_all ON %s FOR SELECT USING (scope <> ''org'')', one.tab);
        ELSIF one.name IN ('workers', 'migrations') THEN
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

-- What a role needs to use Onward for one org: to enqueue, look, cancel and pause, not to work. To be run again when
-- a new version has brought tables.
CREATE FUNCTION {prefix}grant_to(role text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    one record;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA {channel} TO %I', role);
    -- Not what a worker tells about its machine.
    EXECUTE format('GRANT SELECT (id, lease_until, idle_since, lost_at) ON {workers} TO %I', role);
    FOR one IN
        SELECT * FROM (VALUES
            ('live', 'SELECT, INSERT, UPDATE, DELETE'),
            ('ended', 'SELECT, INSERT, UPDATE, DELETE'),
            ('keys', 'SELECT, INSERT, UPDATE, DELETE'),
            ('reruns', 'SELECT, INSERT, UPDATE, DELETE'),
            ('controls', 'SELECT, INSERT, UPDATE, DELETE'),
            ('artifacts', 'SELECT, INSERT, UPDATE, DELETE'),
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
