"""Debounce: many enqueues of one key make one job, which runs once no enqueue has come for a while."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from onward.core.jobs.job import JobState


class Held(msgspec.Struct, frozen=True):
    """The job that holds the key of a debounced enqueue; `now` is the database's clock."""

    state: JobState
    created_at: datetime
    started_at: datetime | None
    run_at: datetime
    attempt: int
    now: datetime

    @property
    def retrying(self) -> bool:
        """Whether the job waits to run again after an unsuccessful attempt."""
        return self.state != JobState.RUNNING and self.attempt > 0


def due_at(held: Held, quiet: timedelta, longest: timedelta | None) -> datetime:
    """Return when a job runs that was enqueued again: after `quiet`, postponed by at most `longest`.

    `longest` counts from the last start of the job, or from its creation if it never started: the first
    enqueue that no run has served yet is not older. A job that waits for a retry keeps its time, else each
    enqueue would undo the back-off.
    """
    if held.retrying:
        return held.run_at
    due = held.now + quiet
    # An instant in the past is not moved to now: each enqueue would send the job to the end of its queue.
    return due if longest is None else min(due, (held.started_at or held.created_at) + longest)
