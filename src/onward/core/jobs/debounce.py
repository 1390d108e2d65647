"""Debounce: many enqueues of one key make one job, which runs when they have been quiet for a while."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from onward.core.jobs.job import JobState


class Held(msgspec.Struct, frozen=True):
    """A job that holds its key, as a debounce finds it; `now` is the database's clock."""

    state: JobState
    created_at: datetime
    started_at: datetime | None
    run_at: datetime
    attempt: int
    now: datetime

    @property
    def retrying(self) -> bool:
        """Waits to run again, after an attempt that came to nothing."""
        return self.state != JobState.RUNNING and self.attempt > 0


def due_at(held: Held, quiet: timedelta, longest: timedelta | None) -> datetime:
    """Say when a job runs that was asked for again: when it was quiet for so long, but not put off for ever.

    The first ask that is not served yet is no older than the last start, or than the job. What waits to be
    tried again keeps its time: each ask would else undo the back-off.
    """
    if held.retrying:
        return held.run_at
    due = held.now + quiet
    # An instant that is over stays as it is: moved to now, it would go to the end of its queue each time.
    return due if longest is None else min(due, (held.started_at or held.created_at) + longest)
