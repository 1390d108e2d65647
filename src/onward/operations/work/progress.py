"""How far running jobs are: written only under their newest lease; a lost lease changes nothing."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from onward.core.jobs.ids import JobId
from onward.core.work.lifecycle import End
from onward.core.work.progress import Report
from onward.operations.statement import Operation, Rows, Statement

REPORTED = ("id", "lease", "progress")

Reported = tuple[JobId, int, Report]
"""The job, the lease under which it runs, and its newest report."""


def store(reports: Iterable[Reported]) -> Operation[frozenset[JobId]]:
    """Store reports; return the jobs whose row another transaction holds: store theirs again."""
    rows = yield Statement("store_progress", {"reports": _rows(reports)})
    return frozenset(job_id for job_id, is_locked in rows if is_locked)


def store_last(ends: Iterable[End]) -> Operation[None]:
    """Store the last reports of runs that are over; called before their ends are written."""
    reports = [(end.job_id, end.lease, end.progress) for end in ends if end.progress is not None]
    yield Statement("store_last_progress", {"reports": _rows(reports)})


def _rows(reports: Iterable[Reported]) -> Rows:
    encode = msgspec.json.encode
    return Rows.of(REPORTED, [(job_id, lease, encode(report).decode()) for job_id, lease, report in reports])
