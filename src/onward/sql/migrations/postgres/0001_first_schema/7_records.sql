-- The audit and its hash chain, usage and budgets, artifacts.

-- Append-only; `action` is the name that an application gives an event, null for most. Most jobs have three rows; the
-- later two find room in the index on half-empty pages. A second B-tree would cost an audited job a tenth.
CREATE TABLE {audit} (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL,
    event text NOT NULL,
    job_id uuid,
    job_type text,
    org_id text,
    project_id text,
    actor_type text,
    actor_id text,
    request_id text,
    correlation_id text,
    attempt integer,
    lease bigint,
    worker_id text,
    detail jsonb,
    action text
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX audit_of_job ON {audit} (job_id) WITH (fillfactor = 35);
-- For reading the audit in order. It lacks the rows since the last vacuum, so vacuums run earlier than by default.
CREATE INDEX audit_in_order ON {audit} USING brin (seq, at) WITH (pages_per_range = 64);

-- The hash chain over the audit, sealed a moment later: `link` is made of the previous link and the row's digest.
CREATE TABLE {chain} (
    position bigint PRIMARY KEY,
    seq bigint NOT NULL UNIQUE,
    digest text NOT NULL,
    link text NOT NULL,
    pruned bigint
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02);

-- Where the chain ends, and up to which number every row is known to be in it. Sealing and pruning lock this row.
CREATE TABLE {sealing} (
    id smallint PRIMARY KEY CHECK (id = 1),
    floor bigint NOT NULL DEFAULT 0,
    position bigint NOT NULL DEFAULT 0,
    link text NOT NULL DEFAULT repeat('0', 64),
    seen_seq bigint,
    seen_xmax bigint,
    seen_at timestamptz
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 200
);
INSERT INTO {sealing} (id) VALUES (1);

CREATE FUNCTION {prefix}refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Allowed only to a prune: it deletes old rows of the audit, and marks them as gone in the chain.
    IF coalesce(current_setting('{channel}.pruning', true), '') <> 'on'
        OR TG_OP <> (CASE TG_TABLE_NAME WHEN 'audit' THEN 'DELETE' ELSE 'UPDATE' END)
    THEN
        RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP
            USING ERRCODE = 'insufficient_privilege', HINT = 'Old rows are removed by audit prune.';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {audit}
    FOR EACH STATEMENT EXECUTE FUNCTION {prefix}refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {chain}
    FOR EACH STATEMENT EXECUTE FUNCTION {prefix}refuse_change();

-- A lower floor would reopen the audit below it, and a lower position would restart the chain.
CREATE FUNCTION {prefix}refuse_lowering() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.floor >= OLD.floor AND NEW.position >= OLD.position THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION '% never goes back: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER never_back BEFORE UPDATE ON {sealing}
    FOR EACH ROW EXECUTE FUNCTION {prefix}refuse_lowering();
CREATE TRIGGER never_gone BEFORE DELETE OR TRUNCATE ON {sealing}
    FOR EACH STATEMENT EXECUTE FUNCTION {prefix}refuse_lowering();

-- The type, org and actor of a job, for the audit of a write that was refused. A function, so that only such a write
-- pays for it.
CREATE FUNCTION {prefix}whose(asked uuid) RETURNS TABLE (
    job_type text, org_id text, project_id text, actor_type text, actor_id text, request_id text, correlation_id text
)
LANGUAGE plpgsql STABLE ROWS 1
SET enable_seqscan = off
AS $$
BEGIN
    RETURN QUERY
    SELECT job.job_type, job.org_id, job.project_id, job.actor_type, job.actor_id, job.request_id, job.correlation_id
    FROM {live} AS job WHERE job.id = asked
    UNION ALL
    SELECT job.job_type, job.org_id, job.project_id, job.actor_type, job.actor_id, job.request_id, job.correlation_id
    FROM {ended} AS job WHERE job.id = asked
    LIMIT 1;
END
$$;

-- What runs have used: one row for each run and unit, written with the run's end.
CREATE TABLE {usage} (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    unit text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    org_id text COLLATE "C",
    project_id text,
    job_type text NOT NULL,
    queue text NOT NULL,
    category text NOT NULL,
    amount double precision NOT NULL CHECK (amount >= 0),
    cost_micros bigint NOT NULL CHECK (cost_micros >= 0),
    at timestamptz NOT NULL,
    PRIMARY KEY (job_id, lease, unit)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX usage_of_org ON {usage} (org_id, at);
-- Rows come in the order of time, so a few bytes for each hundred pages suffice to find a time.
CREATE INDEX usage_by_time ON {usage} USING brin (at) WITH (autosummarize = on);

-- How much an org may spend in a period; `spent_at` is set while it has spent all of it.
CREATE TABLE {budgets} (
    org_id text COLLATE "C" PRIMARY KEY,
    limit_micros bigint NOT NULL CHECK (limit_micros > 0),
    period text NOT NULL CHECK (period IN ('day', 'month', 'total')),
    period_started_at timestamptz NOT NULL,
    spent_micros bigint NOT NULL DEFAULT 0,
    spent_at timestamptz,
    set_at timestamptz NOT NULL,
    actor_type text,
    actor_id text,
    reason text
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 200
);
-- Every worker reads these twice a second, and most orgs are not among them.
CREATE INDEX budgets_spent ON {budgets} (org_id) WHERE spent_at IS NOT NULL;

-- Files that jobs read and write. A row is written after its content, so there is never a row without content.
-- `data` is base64, for small files only; `place` is where the content of the others is.
CREATE TABLE {artifacts} (
    id uuid PRIMARY KEY,
    org_id text COLLATE "C",
    project_id text,
    job_id uuid,
    lease bigint,
    attempt integer,
    name text NOT NULL,
    content_type text NOT NULL,
    size bigint NOT NULL CHECK (size >= 0),
    sha256 text COLLATE "C" NOT NULL CHECK (length(sha256) = 64),
    place text NOT NULL,
    data text CHECK ((data IS NOT NULL) = (place = 'database')),
    roles jsonb,
    actor_type text,
    actor_id text,
    created_at timestamptz NOT NULL,
    expires_at timestamptz
);
CREATE INDEX artifacts_of_job ON {artifacts} (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX artifacts_of_org ON {artifacts} (org_id, id);
CREATE INDEX artifacts_by_content ON {artifacts} (sha256);
CREATE INDEX artifacts_expiring ON {artifacts} (expires_at) WHERE expires_at IS NOT NULL;
