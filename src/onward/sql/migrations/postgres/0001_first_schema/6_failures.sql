-- Dead letters and their groups, breakers, alerts.

-- How dead jobs were resolved: one row for each resolved death, by the lease under which the job died. A dead job
-- without a row is unresolved. Nothing is written here when a job dies.
CREATE TABLE {dead_letters} (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    org_id text COLLATE "C",
    resolution text NOT NULL CHECK (resolution IN ('replayed', 'discarded', 'fixed')),
    at timestamptz NOT NULL,
    actor_type text,
    actor_id text,
    reason text NOT NULL,
    successor_id uuid CHECK ((successor_id IS NOT NULL) = (resolution = 'fixed')),
    diff jsonb,
    PRIMARY KEY (job_id, lease)
);
CREATE UNIQUE INDEX dead_letters_successor ON {dead_letters} (successor_id) WHERE successor_id IS NOT NULL;

-- Dead jobs by the cause of death, so that one group is found among any number of them. Errors without a fingerprint
-- are one group.
CREATE INDEX ended_dead_group ON {ended} ((coalesce(error ->> 'fingerprint', 'unknown') COLLATE "C"), id)
WHERE state = 'dead';

-- Returns every group of unresolved dead jobs, and its newest job. It steps through the index from one fingerprint to
-- the next, however many jobs died of each. It is a function, because its plans have to follow the index: a planner
-- that does not know how large a group is reads and sorts all of it. Under row-level security no index on an expression
-- is used, since its operators might leak what a policy hides. There the newest `most` dead jobs are read once and
-- counted, and a group that has none of those jobs is not found.
CREATE FUNCTION {prefix}dead_groups(low text, high text, only_org text, only_project text, asked_org text, most bigint)
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
                AND (only_org IS NULL OR gone.org_id = only_org)
                AND (only_project IS NULL OR gone.project_id = only_project) AND (asked_org IS NULL OR gone.org_id = asked_org)
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
            AND (only_org IS NULL OR gone.org_id = only_org)
                AND (only_project IS NULL OR gone.project_id = only_project) AND (asked_org IS NULL OR gone.org_id = asked_org)
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
CREATE FUNCTION {prefix}count_dead_group(kind text, only_org text, only_project text, asked_org text, cap bigint) RETURNS text
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
                AND (only_org IS NULL OR gone.org_id = only_org)
                AND (only_project IS NULL OR gone.project_id = only_project) AND (asked_org IS NULL OR gone.org_id = asked_org)
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

-- Providers that have pushed back, and what is held because of it. A provider that never did has no row. An update
-- raises `version` and succeeds only if the version is still the one that was read. The CHECKs keep a row that is
-- edited by hand readable for the workers, all of which read it.
CREATE TABLE {breakers} (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    state text NOT NULL CHECK (state IN ('closed', 'open')),
    failures integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failed_jobs text NOT NULL DEFAULT '',
    counted_from timestamptz CHECK (counted_from BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59.999999Z'),
    opened_at timestamptz CHECK (opened_at BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59.999999Z'),
    until timestamptz CHECK (until BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59.999999Z'),
    holds integer NOT NULL DEFAULT 0 CHECK (holds >= 0),
    probe text COLLATE "C",
    probe_until timestamptz CHECK (probe_until BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59.999999Z'),
    forced integer NOT NULL DEFAULT 0 CHECK (forced IN (0, 1)),
    reason text,
    actor_type text,
    actor_id text
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 200
);
-- Every worker reads these twice a second, and most providers are not among them.
CREATE INDEX breakers_suspect ON {breakers} (name) WHERE state = 'open' OR failures > 0;

-- One row for each group of deaths, by its fingerprint, and for each finding of the doctor. `unsent` counts what has
-- happened since the last message, `batch` what that message reported.
CREATE TABLE {alerts} (
    fingerprint text COLLATE "C" PRIMARY KEY,
    source text NOT NULL CHECK (source IN ('death', 'finding')),
    kind text NOT NULL,
    about jsonb NOT NULL,
    last_job_id uuid,
    count bigint NOT NULL,
    unsent bigint NOT NULL,
    batch bigint NOT NULL DEFAULT 0,
    sends bigint NOT NULL DEFAULT 0,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    sent_at timestamptz,
    resolved_at timestamptz,
    muted_at timestamptz,
    muted_until timestamptz,
    mute_reason text,
    mute_actor_type text,
    mute_actor_id text
) WITH (fillfactor = 50);
CREATE INDEX alerts_unsent ON {alerts} (last_at) WHERE unsent > 0;

-- Messages that wait for their sink: the newest of each alert. A message without `next_at` was given up.
CREATE TABLE {alert_sends} (
    fingerprint text COLLATE "C" NOT NULL,
    sink text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    alert jsonb NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    next_at timestamptz,
    error text,
    PRIMARY KEY (fingerprint, sink)
);
CREATE INDEX alert_sends_next ON {alert_sends} (next_at);

-- The newest deaths that are in an alert, so that each is counted once. The row whose id is all zeros holds the time up
-- to which all deaths are known; it starts at the time of this migration.
CREATE TABLE {alerted} (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (job_id, lease)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX alerted_at ON {alerted} (at);
INSERT INTO {alerted} (job_id, lease, at) VALUES ('00000000-0000-0000-0000-000000000000', 0, clock_timestamp());
-- For reading deaths since a time.
CREATE INDEX ended_deaths ON {ended} (ended_at) WHERE state = 'dead';
