"""Let a job that waits for its time run now."""

from __future__ import annotations

from onward.core.inputs.fields import check_reason
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job, JobState
from onward.errors import JobNotFound, JobNotScheduled
from onward.operations.jobs.inspect import get_many
from onward.operations.statement import Operation, Statement, as_json


def run_now(job_id: JobId, *, reason: str) -> Operation[Job]:
    """Make a scheduled or retrying job due; raises JobNotFound and JobNotScheduled."""
    reason = check_reason(reason)
    moved = yield Statement("advance_job", {"id": job_id})
    found = yield from get_many([job_id])
    if job_id not in found:
        raise JobNotFound(f"no job {job_id}; it was never enqueued here, or has been removed")
    if not moved:
        raise JobNotScheduled(f"job {job_id} {_why(found[job_id])}")
    yield Statement("note_run_now", {"id": job_id, "detail": as_json({"reason": reason})})
    return found[job_id]


def _why(job: Job) -> str:
    match job.state:
        case JobState.SCHEDULED:
            return "waits for a signal; send it, or cancel the job"
        case JobState.QUEUED:
            return "is ready already; onward doctor explains why no worker takes it"
        case JobState.RUNNING:
            return "runs already"
        case JobState.BLOCKED:
            return "waits for other jobs or for a permit of its limit, not for a time"
        case JobState.DEAD:
            return "is dead; replay it: client.dead.replay(…)"
    return f"has ended: it is {job.state}; enqueue another"
