-- The indexes of `ended` for what is new since 0013. Built here, where nothing else is locked: while a large table is read
-- for them, jobs are enqueued and claimed; only ends wait.
CREATE INDEX ended_unsettled ON {ended} (id) WHERE flow > 0;
CREATE INDEX ended_children ON {ended} (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX ended_batch ON {ended} (batch_id, id) WHERE batch_id IS NOT NULL;
-- Nearly always empty: what a batch still has to count.
CREATE INDEX ended_uncounted ON {ended} (batch_id) WHERE flow > 0 AND batch_id IS NOT NULL;

-- As before, and what connects an org's jobs: who waits for whom, batches, signals.
CREATE OR REPLACE FUNCTION {prefix}grant_to(role text) RETURNS void
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
