-- Schedules and their runs.

-- Jobs that are enqueued by the clock. `job` is the job of each run as JSON, kept as text so that two definitions can
-- be compared. `next_at` is the occurrence that is fired next: the runs, their jobs and the next occurrence are written
-- in one transaction. A removed schedule stays, for its history.
CREATE TABLE {schedules} (
    name TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('code', 'database')),
    org_id TEXT,
    job_type TEXT NOT NULL,
    job TEXT NOT NULL,
    cron TEXT,
    every_micros INTEGER CHECK (every_micros > 0),
    tz TEXT NOT NULL,
    anchor INTEGER,
    jitter_micros INTEGER NOT NULL CHECK (jitter_micros >= 0),
    missed TEXT NOT NULL,
    overlap TEXT NOT NULL CHECK (overlap IN ('allow', 'skip', 'wait')),
    warm_up_micros INTEGER NOT NULL CHECK (warm_up_micros >= 0),
    next_at INTEGER,
    last_occurrence INTEGER,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    paused_at INTEGER,
    paused_by_type TEXT,
    paused_by_id TEXT,
    pause_reason TEXT,
    removed_at INTEGER,
    CHECK ((cron IS NULL) <> (every_micros IS NULL))
) WITHOUT ROWID;
CREATE INDEX {prefix}schedules_due ON {schedules} (next_at) WHERE paused_at IS NULL AND removed_at IS NULL;

-- One row for each occurrence that was fired, whatever its outcome: the primary key keeps an occurrence from
-- being fired twice. A run that an operator started has a source of its own, so that it takes no occurrence.
CREATE TABLE {schedule_runs} (
    schedule TEXT NOT NULL,
    occurrence INTEGER NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('occurrence', 'run_now')),
    fired_at INTEGER NOT NULL,
    late INTEGER NOT NULL CHECK (late IN (0, 1)),
    job_id TEXT,
    outcome TEXT,
    error TEXT,
    ended_at INTEGER,
    PRIMARY KEY (schedule, occurrence, source)
) WITHOUT ROWID;
CREATE INDEX {prefix}schedule_runs_job ON {schedule_runs} (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX {prefix}schedule_runs_fired ON {schedule_runs} (fired_at);
-- The few runs that have not ended, which the next one would overlap.
CREATE INDEX {prefix}schedule_runs_open ON {schedule_runs} (schedule) WHERE ended_at IS NULL;
