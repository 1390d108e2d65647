-- Settings and the table of versions. Only PostgreSQL has partitions, row-level security and grants.

-- Values of the whole installation. `installation` separates the files of two databases that share a directory.
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
