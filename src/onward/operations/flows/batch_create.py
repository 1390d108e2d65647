"""Make batches: with all their jobs at once, or open, to be filled later."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onward.core.flows.batch import (
    CALLBACKS,
    EnqueuedBatch,
    NewBatch,
    check_callback,
    org_of_batch,
    project_of_batch,
)
from onward.core.flows.flow import Tie
from onward.core.inputs.fields import check_text, check_texts
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import NewJob
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.errors import InvalidJob
from onward.operations.flows.batches import LONGEST_NAME, end_idle
from onward.operations.jobs.enqueue import enqueue_many
from onward.operations.jobs.new_rows import COLUMNS, check_keys, new_row
from onward.operations.statement import Operation, Scalar, Statement, as_json


def open_batch(new: NewBatch, policies: Policies = DEFAULT_POLICIES) -> Operation[None]:
    """Make a batch to which jobs can be added until it is closed."""
    everyone = [*new.callbacks.values()] or [new.origin]
    yield _insertion(new, everyone, policies, closed=False)


def enqueue_batch(
    new: NewBatch,
    jobs: Sequence[NewJob],
    ids: Sequence[JobId],
    policies: Policies = DEFAULT_POLICIES,
    *,
    at_once: int | None = None,
    noted: bool = True,
) -> Operation[EnqueuedBatch]:
    """Make a closed batch of these jobs; an empty one ends at once. To be run in one transaction."""
    # Values that are no job are refused by the enqueue, which reports their place.
    members = [_member(at, job, new.id) if isinstance(job, NewJob) else job for at, job in enumerate(jobs)]
    everyone = [*jobs, *new.callbacks.values()] or [new.origin]
    yield _insertion(new, everyone, policies, closed=True)
    stored = yield from enqueue_many(members, ids, policies, at_once=at_once, noted=noted)
    if not any(one.created for one in stored):
        yield from end_idle([new.id])
    return EnqueuedBatch(new.id, stored)


def _member(at: int, job: NewJob, batch_id: JobId) -> NewJob:
    if job.batch_id is not None:
        raise InvalidJob(f"jobs[{at}] is in batch {job.batch_id} already; a job can be in one batch only")
    return msgspec.structs.replace(job, batch_id=batch_id, ties=int(job.ties | Tie.BATCHED))


def _insertion(new: NewBatch, everyone: Sequence[NewJob], policies: Policies, *, closed: bool) -> Statement:
    """Return the statement that stores a batch; its callbacks are checked as if they were enqueued now."""
    if new.name is not None:
        check_text("name", new.name, longest=LONGEST_NAME)
    origin, org_id, project_id = new.origin, org_of_batch(everyone), project_of_batch(everyone)
    check_texts(
        {
            "org_id": org_id,
            "project_id": project_id,
            "actor_type": origin.actor_type,
            "actor_id": origin.actor_id,
        }
    )
    callbacks = {name: _row(name, new, policies) for name in CALLBACKS if name in new.callbacks}
    return Statement(
        "insert_batch",
        {
            "id": new.id,
            "org_id": org_id,
            "project_id": project_id,
            "name": new.name,
            "closed": int(closed),
            "callbacks": as_json(callbacks),
            "actor_type": origin.actor_type,
            "actor_id": origin.actor_id,
            "correlation_id": origin.correlation_id,
            "parent_id": origin.parent_id,
        },
    )


def _row(name: str, batch: NewBatch, policies: Policies) -> dict[str, Scalar]:
    """Return a callback as the row that its enqueue will write: it is in the batch, but not counted."""
    callback = batch.callbacks[name]
    [key] = check_keys([callback], policies)
    check_callback(name, callback)
    if known := policies.registry.job_types.get(callback.job_type):
        known.check(callback.payload)
    # A key of its own, so that it is enqueued whatever other jobs hold.
    key = None if key is None else f"batch:{batch.id}:{name}"
    correlation = callback.correlation_id or batch.origin.correlation_id or batch.id
    new = msgspec.structs.replace(callback, batch_id=batch.id, correlation_id=correlation, key=key)
    row = zip(COLUMNS, new_row(new, batch.callback_ids[name], policies), strict=True)
    return {column: value for column, value in row if value is not None}
