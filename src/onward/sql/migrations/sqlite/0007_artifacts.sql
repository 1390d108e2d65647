-- What the whole installation has one of. `installation` keeps the files of two databases apart that share a directory.
CREATE TABLE {settings} (
    name TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO {settings} (name, value) VALUES ('installation', lower(hex(randomblob(16))));

-- Files that jobs take in and leave. A row is written after its content, so there is never one without.
-- `data` is base64 and only of what is small; `place` tells where the rest was put.
CREATE TABLE {artifacts} (
    id TEXT PRIMARY KEY NOT NULL,
    org_id TEXT,
    project_id TEXT,
    job_id TEXT,
    lease INTEGER,
    attempt INTEGER,
    name TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size INTEGER NOT NULL CHECK (size >= 0),
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    place TEXT NOT NULL,
    data TEXT CHECK ((data IS NOT NULL) = (place = 'database')),
    roles TEXT,
    actor_type TEXT,
    actor_id TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
);
CREATE INDEX {prefix}artifacts_of_job ON {artifacts} (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX {prefix}artifacts_of_org ON {artifacts} (org_id, id);
CREATE INDEX {prefix}artifacts_by_content ON {artifacts} (sha256);
CREATE INDEX {prefix}artifacts_expiring ON {artifacts} (expires_at) WHERE expires_at IS NOT NULL;
