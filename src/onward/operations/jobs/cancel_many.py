"""Cancel many jobs, page by page; the request is audited with the first page."""

from __future__ import annotations

from functools import partial

from onward.core.jobs.ids import JobId
from onward.core.policy.policies import Policies
from onward.operations.flows import batches
from onward.operations.jobs import cancel
from onward.operations.jobs.cancel import CancelledMany, CancelRequest, Picked, Stopped
from onward.operations.walk import FollowUp, Step, Walk, reading

_NOTHING = CancelledMany()


def cancel_found(
    policies: Policies, request: CancelRequest, begin: CancelledMany = _NOTHING, *, dry_run: bool = False
) -> Walk[CancelledMany]:
    """Count the jobs of a request, then cancel them unless it is a dry run."""
    counted = begin
    while True:
        picked = yield reading(partial(cancel.pick, request, counted, count=True))
        counted = counted.plus(picked, None)
        if counted.next_cursor is None or counted.found >= request.limit:
            break
    return counted if dry_run else (yield from _cancel_pages(policies, request, begin, counted.found))


def cancel_batch(policies: Policies, request: CancelRequest, batch_id: JobId) -> Walk[CancelledMany]:
    """Cancel the jobs of a batch and close it."""
    request = yield Step(partial(cancel.refuse_more, request, batch_id))
    answer = yield from cancel_found(policies, request)
    # Closing waits for callers that are adding jobs; the last pass cancels the jobs that they added.
    yield Step(partial(batches.close, batch_id), atomic=True)
    return answer.joined((yield from _cancel_pages(policies, request, _NOTHING, None)))


def cancel_flow(
    policies: Policies, job_id: JobId, reason: str, *, dry_run: bool = False
) -> Walk[CancelledMany]:
    """Cancel a job, all jobs that wait for it, and all jobs that it has enqueued."""
    chosen = yield reading(partial(cancel.of_flow, job_id))
    request = CancelRequest(chosen=chosen, reason=reason)
    find = reading(partial(cancel.find_flow, job_id))
    ids = yield find
    if dry_run:
        return CancelledMany(found=len(ids))
    answer = CancelledMany()
    found: int | None = len(ids)
    while (ids and answer.found < request.limit) or found is not None:
        for at in range(0, max(len(ids), 1), cancel.AT_ONCE):
            page = Picked(ids[at : at + cancel.AT_ONCE], more=False)
            answer, found = answer.plus(page, (yield from _cancel_page(policies, request, page, found))), None
        # Jobs that were running may have enqueued more in the meantime.
        ids = yield find
    return answer


def _cancel_pages(
    policies: Policies, request: CancelRequest, answer: CancelledMany, found: int | None
) -> Walk[CancelledMany]:
    while True:
        picked = yield reading(partial(cancel.pick, request, answer))
        answer, found = answer.plus(picked, (yield from _cancel_page(policies, request, picked, found))), None
        if answer.next_cursor is None or answer.found >= request.limit:
            return answer


def _cancel_page(
    policies: Policies, request: CancelRequest, picked: Picked, found: int | None
) -> Walk[Stopped]:
    stopped: Stopped = yield Step(
        partial(cancel.cancel_page, request, picked.ids, found=found, policies=policies), atomic=True
    )
    yield FollowUp(stopped.tied, stopped.slots)
    return stopped
