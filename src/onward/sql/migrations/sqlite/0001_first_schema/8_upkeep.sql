-- Settings and the table of versions. Partitions, row-level security and grants are PostgreSQL's alone.

-- What the whole installation has one of. `installation` keeps apart the files of two databases that share a directory.
CREATE TABLE {settings} (
    name TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO {settings} (name, value) VALUES ('installation', lower(hex(randomblob(16))));

-- The migrations that were applied; each adds its own row as its last statement.
CREATE TABLE {migrations} (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
