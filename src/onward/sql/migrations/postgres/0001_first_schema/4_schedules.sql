-- Schedules and their runs.

-- Jobs that are enqueued by the clock. `job` is the job of each run as JSON, kept as text so that two definitions can
-- be compared. `next_at` is the occurrence that is fired next: firing holds the row's lock until the runs, their jobs
-- and the next occurrence are written. A removed schedule stays, for its history.
CREATE TABLE {schedules} (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    source text NOT NULL CHECK (source IN ('code', 'database')),
    org_id text COLLATE "C",
    job_type text COLLATE "C" NOT NULL,
    job text NOT NULL,
    cron text,
    every_micros bigint CHECK (every_micros > 0),
    tz text NOT NULL,
    anchor timestamptz,
    jitter_micros bigint NOT NULL CHECK (jitter_micros >= 0),
    missed text NOT NULL,
    overlap text NOT NULL CHECK (overlap IN ('allow', 'skip', 'wait')),
    warm_up_micros bigint NOT NULL CHECK (warm_up_micros >= 0),
    next_at timestamptz,
    last_occurrence timestamptz,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    paused_at timestamptz,
    paused_by_type text,
    paused_by_id text,
    pause_reason text,
    removed_at timestamptz,
    CHECK ((cron IS NULL) <> (every_micros IS NULL))
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 200
);
CREATE INDEX schedules_due ON {schedules} (next_at) WHERE paused_at IS NULL AND removed_at IS NULL;

-- One row for each occurrence that was fired, whatever its outcome: the primary key keeps an occurrence from
-- being fired twice. A run that an operator started has a source of its own, so that it takes no occurrence.
CREATE TABLE {schedule_runs} (
    schedule text COLLATE "C" NOT NULL,
    occurrence timestamptz NOT NULL,
    source text COLLATE "C" NOT NULL CHECK (source IN ('occurrence', 'run_now')),
    fired_at timestamptz NOT NULL,
    late smallint NOT NULL CHECK (late IN (0, 1)),
    job_id uuid,
    outcome text,
    error text,
    ended_at timestamptz,
    PRIMARY KEY (schedule, occurrence, source)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX schedule_runs_job ON {schedule_runs} (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX schedule_runs_fired ON {schedule_runs} (fired_at);
-- The few runs that have not ended, which the next one would overlap.
CREATE INDEX schedule_runs_open ON {schedule_runs} (schedule) WHERE ended_at IS NULL;
