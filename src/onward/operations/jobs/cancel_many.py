"""Cancel many jobs, page by page, each page in a transaction of its own; the request is audited first."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import msgspec

from onward.core.bulk import MOST_AT_ONCE, Bulk
from onward.core.inputs.fields import check_reason
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import JobState
from onward.core.policy.policies import Policies
from onward.operations.flows import batches
from onward.operations.jobs import cancel
from onward.operations.jobs.cancel import Chosen, Stopped
from onward.operations.walk import FollowUp, Range, Step, Walk, count, page_by_page, reading


def cancel_chosen(
    chosen: Chosen, covered: Range, policies: Policies, *, reason: str, dry_run: bool = False
) -> Walk[Bulk]:
    """Count the chosen jobs, then cancel them unless it is a dry run."""
    reason = check_reason(reason, hide=policies.settings.redact.redact_text)
    counted = yield from count(covered, partial(cancel.pick, chosen))
    if dry_run:
        return counted
    yield Step(partial(cancel.note, chosen, reason, counted.found))
    return (yield from _cancel_pages(chosen, covered, reason))


def cancel_batch(batch_id: JobId, covered: Range, policies: Policies, *, reason: str) -> Walk[Bulk]:
    """Cancel the jobs of a batch and close it."""
    reason = check_reason(reason, hide=policies.settings.redact.redact_text)
    chosen = yield Step(partial(cancel.refuse_more, cancel.of_batch(batch_id), batch_id))
    answer = yield from cancel_chosen(chosen, covered, policies, reason=reason)
    # Closing waits for callers that are adding jobs; the last pass cancels the jobs that they added.
    yield Step(partial(batches.close, batch_id), atomic=True)
    if answer.next_cursor is not None:
        return answer
    later = msgspec.structs.replace(covered, cursor=None)
    return answer.joined((yield from _cancel_pages(chosen, later, reason)))


def cancel_flow(job_id: JobId, policies: Policies, *, reason: str, dry_run: bool = False) -> Walk[Bulk]:
    """Cancel a job, all jobs that wait for it, and all jobs that it has enqueued."""
    reason = check_reason(reason, hide=policies.settings.redact.redact_text)
    chosen = yield reading(partial(cancel.of_flow, job_id))
    find = reading(partial(cancel.find_flow, job_id))
    ids = yield find
    if dry_run:
        return Bulk(found=len(ids))
    yield Step(partial(cancel.note, chosen, reason, len(ids)))
    answer = Bulk()
    while ids and answer.found < MOST_AT_ONCE:
        for at in range(0, len(ids), cancel.AT_ONCE):
            page = ids[at : at + cancel.AT_ONCE]
            changed = yield from _cancel_page(reason, page, 0)
            answer = answer.joined(msgspec.structs.replace(changed, found=len(page)))
        # Jobs that were running may have enqueued more in the meantime.
        ids = yield find
    return answer


def _cancel_pages(chosen: Chosen, covered: Range, reason: str) -> Walk[Bulk]:
    pick, act = partial(cancel.pick, chosen), partial(_cancel_page, reason)
    return (yield from page_by_page(covered, pick, act, at_once=cancel.AT_ONCE))


def _cancel_page(reason: str, ids: Collection[JobId], _done: int) -> Walk[Bulk]:
    stopped: Stopped = yield Step(partial(cancel.stop, ids, reason=reason), atomic=True)
    yield FollowUp(stopped.tied, stopped.permits)
    states = [stopped.states.get(job_id) for job_id in ids]
    running = states.count(JobState.RUNNING)
    return Bulk(done=states.count(JobState.CANCELLED) + running, pending=running)
