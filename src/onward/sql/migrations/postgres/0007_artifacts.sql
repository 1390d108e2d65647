-- What the whole installation has one of. `installation` keeps the files of two databases apart that share a directory.
CREATE TABLE {settings} (
    name text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO {settings} (name, value) VALUES ('installation', replace(CAST(gen_random_uuid() AS text), '-', ''));

-- Files that jobs take in and leave. A row is written after its content, so there is never one without.
-- `data` is base64 and only of what is small; `place` tells where the rest was put.
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
