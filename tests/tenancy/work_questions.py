"""What the matrix of tenancy asks about the work of an org: its workers, and its running jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onward import AuditFilter, Succeeded
from onward.core.work.job_end import JobEnd
from onward.core.work.lease import JobLease
from onward.core.work.progress import JobReport, Report
from tests.tenancy.world import AGES, Owner, running_job

__all__ = ["WORK_QUESTIONS", "Call"]

Call = Callable[[Any, Owner], object]

WORK_QUESTIONS: dict[str, list[Call]] = {
    "worker.extend": [lambda c, o: c.worker.extend(f"worker of {o.org_id}", [], lease=AGES)],
    "worker.retire": [lambda c, o: c.worker.retire(f"leaver of {o.org_id}")],
    "worker.finish": [
        lambda c, o: c.worker.finish([JobEnd(o.ending, 1, 1, Succeeded())]),
        # Under a lease that was lost, and of jobs that have ended.
        lambda c, o: (
            c.worker.finish([JobEnd(o.running, 0, 1, Succeeded())]),
            c.audit.list(AuditFilter(job_id=o.running, event="job.stale_result_rejected")),
        ),
        lambda c, o: (
            c.worker.finish([JobEnd(o.dead, 1, 1, Succeeded())]),
            c.audit.list(AuditFilter(job_id=o.dead, event="job.stale_result_rejected")),
        ),
    ],
    "worker.release": [lambda c, o: c.worker.release([JobLease(o.returning, 1, 1)])],
    "worker.store_progress": [
        lambda c, o: (
            c.worker.store_progress([JobReport.of(running_job(c, o), Report(1))]),
            c.jobs.get_many([o.running]),
        ),
    ],
}
