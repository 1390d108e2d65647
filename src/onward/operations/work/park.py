"""Parked jobs, which leave their slot to wait: when they are due, and which signal may wake them earlier."""

from __future__ import annotations

from collections.abc import Iterable

from onward.core.jobs.job import micros
from onward.core.work.lifecycle import End
from onward.operations.statement import Operation, Rows, Statement, as_json

PARKED = ("id", "lease", "event", "key", "until", "seen")


def park(ends: Iterable[End]) -> Operation[None]:
    """Write what just released jobs wait for; the caller runs this in the transaction of the release."""
    parked = [
        # The release has raised the lease by one.
        (end.job_id, end.lease + 1, wait.event, wait.key, micros(wait.until), as_json(list(wait.seen)))
        for end in ends
        if (wait := end.transition.wait) is not None
    ]
    if parked:
        yield Statement("park_jobs", {"parked": Rows.of(PARKED, parked)})
