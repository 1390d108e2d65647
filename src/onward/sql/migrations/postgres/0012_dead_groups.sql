-- Dead letters by what they died of, so that one group is found among any number of them. Partial, as the other indexes
-- of the dead: whoever succeeds does not pay for it. Jobs that died before errors had a fingerprint are one group.
CREATE INDEX ended_dead_group ON {ended} ((coalesce(error ->> 'fingerprint', 'unknown') COLLATE "C"), id)
WHERE state = 'dead';

-- Every group of dead jobs that wait for somebody, and its newest one. The index leads from one fingerprint to the next,
-- however many died of each. A function, because its plans have to follow the index: a planner that does not know how
-- large a group is reads and sorts all of it. Under row-level security no index on an expression is used, since an
-- operator might tell what a policy hides: there the newest dead are read once, and counted on the way; groups that
-- have none of them are not found.
CREATE FUNCTION {prefix}dead_groups(low text, high text, only_org text, asked_org text, most bigint)
RETURNS TABLE (fingerprint text, id uuid, counted text)
LANGUAGE plpgsql STABLE ROWS 100
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_material = off
AS $$
DECLARE
    beyond text := low;
BEGIN
    IF row_security_active('{ended}') THEN
        RETURN QUERY
        SELECT died.kind, (array_agg(died.id ORDER BY died.id DESC))[1], CAST(json_build_array(
            count(*), CAST(date_part('epoch', min(died.ended_at)) * 1000000 AS bigint),
            CAST(date_part('epoch', max(died.ended_at)) * 1000000 AS bigint), count(DISTINCT died.org_id)
        ) AS text)
        FROM (
            SELECT
                gone.id, gone.org_id, gone.ended_at,
                (coalesce(gone.error ->> 'fingerprint', 'unknown') COLLATE "C") AS kind
            FROM {ended} AS gone
            WHERE gone.state = 'dead'
                AND (only_org IS NULL OR gone.org_id = only_org) AND (asked_org IS NULL OR gone.org_id = asked_org)
                AND NOT EXISTS (
                    SELECT FROM {dead_letters} AS letter
                    WHERE letter.job_id = ANY (ARRAY[gone.id]) AND letter.lease = gone.lease
                )
            ORDER BY gone.id DESC
            LIMIT most
        ) AS died
        WHERE died.kind >= low AND died.kind < high
        GROUP BY died.kind;
        RETURN;
    END IF;
    LOOP
        SELECT (coalesce(gone.error ->> 'fingerprint', 'unknown') COLLATE "C") INTO fingerprint FROM {ended} AS gone
        WHERE gone.state = 'dead' AND (coalesce(gone.error ->> 'fingerprint', 'unknown') COLLATE "C") >= beyond
            AND (coalesce(gone.error ->> 'fingerprint', 'unknown') COLLATE "C") < high
        ORDER BY (coalesce(gone.error ->> 'fingerprint', 'unknown') COLLATE "C")
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        SELECT gone.id INTO id FROM {ended} AS gone
        WHERE gone.state = 'dead' AND (coalesce(gone.error ->> 'fingerprint', 'unknown') COLLATE "C") = fingerprint
            AND (only_org IS NULL OR gone.org_id = only_org) AND (asked_org IS NULL OR gone.org_id = asked_org)
            AND NOT EXISTS (
                SELECT FROM {dead_letters} AS letter
                WHERE letter.job_id = ANY (ARRAY[gone.id]) AND letter.lease = gone.lease
            )
        ORDER BY gone.id DESC
        LIMIT 1;
        IF FOUND THEN
            RETURN NEXT;
        END IF;
        beyond := fingerprint || chr(1);
    END LOOP;
END
$$;

-- Counts a group by its newest jobs, up to a cap: [count, first, last, orgs].
CREATE FUNCTION {prefix}count_dead_group(kind text, only_org text, asked_org text, cap bigint) RETURNS text
LANGUAGE plpgsql STABLE
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_material = off
AS $$
BEGIN
    RETURN (
        SELECT json_build_array(
            count(*), CAST(date_part('epoch', min(died.ended_at)) * 1000000 AS bigint),
            CAST(date_part('epoch', max(died.ended_at)) * 1000000 AS bigint), count(DISTINCT died.org_id)
        )
        FROM (
            SELECT gone.ended_at, gone.org_id FROM {ended} AS gone
            WHERE gone.state = 'dead' AND (coalesce(gone.error ->> 'fingerprint', 'unknown') COLLATE "C") = kind
                AND (only_org IS NULL OR gone.org_id = only_org) AND (asked_org IS NULL OR gone.org_id = asked_org)
                AND NOT EXISTS (
                    SELECT FROM {dead_letters} AS letter
                    WHERE letter.job_id = ANY (ARRAY[gone.id]) AND letter.lease = gone.lease
                )
            ORDER BY gone.id DESC
            LIMIT cap
        ) AS died
    );
END
$$;

-- As before, and the effects of an org's jobs.
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
