-- What an application calls an event; null for most.
ALTER TABLE {audit} ADD COLUMN action text;

-- To read the audit in its order. Not a B-tree, which would cost an audited job a tenth more; it may be old by as
-- much as was inserted since the last vacuum, so that comes sooner than by default.
CREATE INDEX audit_in_order ON {audit} USING brin (seq, at) WITH (pages_per_range = 64);
DO $$
BEGIN
    IF CAST(current_setting('server_version_num') AS integer) >= 130000 THEN
        ALTER TABLE {audit} SET (autovacuum_vacuum_insert_scale_factor = 0.02);
    END IF;
END
$$;

-- The hash chain over the audit, sealed a moment later: `link` is made of the link before and of the row's digest.
CREATE TABLE {chain} (
    position bigint PRIMARY KEY,
    seq bigint NOT NULL UNIQUE,
    digest text NOT NULL,
    link text NOT NULL,
    pruned bigint
);

-- Where the chain ends, and up to which number every row is known to be in it. Locked by whoever seals or prunes.
-- ({claimed} is needed on SQLite alone.)
CREATE TABLE {sealing} (
    id smallint PRIMARY KEY CHECK (id = 1),
    floor bigint NOT NULL DEFAULT 0,
    position bigint NOT NULL DEFAULT 0,
    link text NOT NULL DEFAULT repeat('0', 64),
    seen_seq bigint,
    seen_xmax bigint,
    seen_at timestamptz
) WITH (fillfactor = 50);
INSERT INTO {sealing} (id) VALUES (1);

CREATE FUNCTION {prefix}refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Only while old rows are removed: rows of the audit go, and are marked as gone in the chain.
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

-- A lower floor would open the audit again below it, and a lower position would have the chain begin anew.
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

-- Whose a job is, for the line about a write that was refused. A function, so that only such a write pays for it.
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
