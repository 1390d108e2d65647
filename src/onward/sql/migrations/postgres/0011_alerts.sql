-- The alerts: one row for each group of deaths, by its fingerprint, and for each finding of the doctor. `unsent` is what
-- happened since the last message; `batch` what that message told of.
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

-- Messages that wait for their sink: the newest of each alert; with no `next_at` it was given up.
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

-- The newest deaths that were turned into alerts: each is, once. The row of no job says up to when all are
-- known: what died before the tables were made is not told.
CREATE TABLE {alerted} (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (job_id, lease)
);
CREATE INDEX alerted_at ON {alerted} (at);
INSERT INTO {alerted} (job_id, lease, at) VALUES ('00000000-0000-0000-0000-000000000000', 0, clock_timestamp());

CREATE INDEX ended_deaths ON {ended} (ended_at) WHERE state = 'dead';
