"""Add jobs to batches that exist already.

The process that adds a job locks its batch only against ending: other jobs can be added meanwhile, and the
end of the batch waits for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from onward.core.flows.batch import check_open
from onward.core.flows.flow import Tie
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import NewJob
from onward.errors import BatchNotFound
from onward.operations.statement import Operation, Statement, as_json


def join(jobs: Sequence[NewJob]) -> Operation[Sequence[NewJob]]:
    """Keep the batches of jobs from ending until these are stored; return the jobs, marked as counted there.

    Raises BatchNotFound and BatchClosed.
    """
    adding = {at: normalise_id(str(new.batch_id)) for at, new in enumerate(jobs) if _joins(new)}
    if not adding:
        return jobs
    rows = yield Statement("join_batches", {"ids": as_json(sorted(set(adding.values())))})
    found = {
        batch_id: (
            org_id,
            {"closed": closed is not None, "cancelled": cancelled is not None, "ended": ended is not None},
        )
        for batch_id, org_id, closed, cancelled, ended in rows
    }
    closed = any(state["closed"] for _, state in found.values())
    inside = yield from _members([jobs[at].parent_id for at in adding] if closed else [])
    joined = list(jobs)
    for at, batch_id in adding.items():
        if batch_id not in found:
            raise not_found(batch_id)
        new, (org_id, state) = jobs[at], found[batch_id]
        is_inside = new.parent_id is not None and inside.get(normalise_id(new.parent_id)) == batch_id
        check_open(batch_id, state, of_org=org_id, new=new, inside=is_inside)
        joined[at] = msgspec.structs.replace(new, ties=int(new.ties | Tie.BATCHED))
    return joined


def _joins(new: NewJob) -> bool:
    """Whether a job is still to be added to its batch; a job made with its batch is in it already."""
    return isinstance(new, NewJob) and new.batch_id is not None and not new.ties & Tie.BATCHED


def _members(ids: Collection[JobId | None]) -> Operation[dict[JobId, JobId]]:
    """Return the batches of those of these jobs that have not ended."""
    wanted = sorted({normalise_id(job_id) for job_id in ids if job_id is not None})
    if not wanted:
        return {}
    rows = yield Statement("find_batch_members", {"ids": as_json(wanted)})
    return {job_id: batch_id for job_id, batch_id in rows}  # noqa: C416 - of rows, not of pairs


def not_found(batch_id: JobId) -> BatchNotFound:
    """Return the error for an unknown batch."""
    return BatchNotFound(f"no batch {batch_id}; it was never made here, or has been removed")
