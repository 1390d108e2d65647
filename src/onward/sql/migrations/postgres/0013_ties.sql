-- Why others care how a job ends (`flow`: bits, see core/flow.py), how many jobs it waits for, whose slot it needs, and
-- whether its queue is shared out fairly among orgs. Constant defaults: nothing is rewritten.
ALTER TABLE {live}
    ADD COLUMN flow smallint NOT NULL DEFAULT 0,
    ADD COLUMN pending integer NOT NULL DEFAULT 0,
    ADD COLUMN limit_key text COLLATE "C",
    ADD COLUMN fair boolean NOT NULL DEFAULT false;
-- Once all that follows from an end is done, its `flow` is negative.
ALTER TABLE {ended}
    ADD COLUMN flow smallint NOT NULL DEFAULT 0,
    ADD COLUMN limit_key text COLLATE "C",
    ADD COLUMN fair boolean NOT NULL DEFAULT false;
