-- Why others care how a job ends (`flow`: bits, see core/flow.py), how many jobs it waits for, whose slot it needs, and
-- whether its queue is shared out fairly among orgs.
ALTER TABLE {live} ADD COLUMN flow INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {live} ADD COLUMN pending INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {live} ADD COLUMN limit_key TEXT;
ALTER TABLE {live} ADD COLUMN fair INTEGER NOT NULL DEFAULT 0;
-- Once all that follows from an end is done, its `flow` is negative.
ALTER TABLE {ended} ADD COLUMN flow INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {ended} ADD COLUMN limit_key TEXT;
ALTER TABLE {ended} ADD COLUMN fair INTEGER NOT NULL DEFAULT 0;
CREATE INDEX {prefix}ended_unsettled ON {ended} (id) WHERE flow > 0;
