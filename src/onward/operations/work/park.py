"""Jobs that leave their slot to wait: when they are due, and what may call them back before."""

from __future__ import annotations

from collections.abc import Iterable

from onward.core.jobs.job import micros
from onward.core.work.lifecycle import End
from onward.operations.statement import Operation, Rows, Statement, as_json

PARKED = ("id", "lease", "event", "key", "until", "seen")


def park(ends: Iterable[End]) -> Operation[None]:
    """Write what jobs wait for that have just gone back; in one transaction with that, by the caller."""
    parked = [
        # The lease grew when the job was given back.
        (end.job_id, end.lease + 1, wait.event, wait.key, micros(wait.until), as_json(list(wait.seen)))
        for end in ends
        if (wait := end.transition.wait) is not None
    ]
    if parked:
        yield Statement("park_jobs", {"parked": Rows.of(PARKED, parked)})
