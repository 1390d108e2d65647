-- What an application calls an event; null for most.
ALTER TABLE {audit} ADD COLUMN action TEXT;

-- The hash chain over the audit, sealed a moment later: `link` is made of the link before and of the row's digest.
CREATE TABLE {chain} (
    position INTEGER PRIMARY KEY NOT NULL,
    seq INTEGER NOT NULL UNIQUE,
    digest TEXT NOT NULL,
    link TEXT NOT NULL,
    pruned INTEGER
);

-- Where the chain ends, up to which number every row is known to be in it, and whether old rows are being removed.
CREATE TABLE {sealing} (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    floor INTEGER NOT NULL DEFAULT 0,
    position INTEGER NOT NULL DEFAULT 0,
    link TEXT NOT NULL DEFAULT '0000000000000000000000000000000000000000000000000000000000000000',
    pruning INTEGER NOT NULL DEFAULT 0
);
INSERT INTO {sealing} (id) VALUES (1);

-- What a claim takes, while it takes it: only where the audit does not tell. Empty outside a transaction.
CREATE TABLE {claimed} (job_id TEXT NOT NULL);

CREATE TRIGGER {prefix}audit_is_not_updated BEFORE UPDATE ON {audit}
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only: UPDATE is refused');
END;
CREATE TRIGGER {prefix}audit_is_not_deleted BEFORE DELETE ON {audit}
WHEN NOT EXISTS (SELECT 1 FROM {sealing} WHERE pruning = 1)
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only: DELETE is refused; old rows are removed by audit prune');
END;
CREATE TRIGGER {prefix}chain_is_not_updated BEFORE UPDATE ON {chain}
WHEN NOT EXISTS (SELECT 1 FROM {sealing} WHERE pruning = 1)
BEGIN
    SELECT RAISE(ABORT, 'the chain of the audit is append-only: UPDATE is refused');
END;
CREATE TRIGGER {prefix}chain_is_not_deleted BEFORE DELETE ON {chain}
BEGIN
    SELECT RAISE(ABORT, 'the chain of the audit is append-only: DELETE is refused');
END;

-- A lower floor would open the audit again below it, and a lower position would have the chain begin anew.
CREATE TRIGGER {prefix}sealing_is_not_lowered BEFORE UPDATE ON {sealing}
WHEN NEW.floor < OLD.floor OR NEW.position < OLD.position
BEGIN
    SELECT RAISE(ABORT, 'sealing never goes back: UPDATE is refused');
END;
CREATE TRIGGER {prefix}sealing_is_not_deleted BEFORE DELETE ON {sealing}
BEGIN
    SELECT RAISE(ABORT, 'sealing never goes back: DELETE is refused');
END;
