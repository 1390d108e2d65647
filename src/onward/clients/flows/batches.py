"""Batches: jobs that are counted together, and the callbacks that are enqueued after all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from itertools import chain, repeat

from onward.clients.binding import AsyncBinding
from onward.clients.jobs.enqueue_hooks import around_enqueue
from onward.core.bulk import Bulk, BulkLimit
from onward.core.flows.batch import CALLBACKS, Batch, EnqueuedBatch, NewBatch
from onward.core.inputs.checks import check_kind
from onward.core.jobs.ids import AnyJobId, IdMaker, JobId, normalise_id
from onward.core.jobs.job import Job, NewJob
from onward.core.page import Cursor, Page, PageSize
from onward.operations.flows import batch_create, batches
from onward.operations.jobs import cancel_many
from onward.operations.walk import Range
from onward.origin import filled

_PART = 2500
_MANY = 10_000

_ids = IdMaker(time.time_ns, os.urandom)


class AsyncBatches:
    """A batch ends when it is closed and its last job has ended; then its callbacks are enqueued, once.

    `on_success` is enqueued if all jobs succeeded, `on_failure` if any is dead or was cancelled,
    `on_complete` always.
    """

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._run = binding.run
        self._policies = binding.policies

    async def enqueue(
        self,
        jobs: Iterable[NewJob],
        *,
        on_success: NewJob | None = None,
        on_failure: NewJob | None = None,
        on_complete: NewJob | None = None,
        name: str | None = None,
    ) -> EnqueuedBatch:
        """Make a batch of these jobs, all or nothing; a job whose key is held does not join it.

        Raises InvalidSetting for what are no jobs, and what `client.enqueue_many()` raises.
        """
        check_kind("jobs", jobs, Iterable, "give a list of NewJob")
        new = self._new(name, on_success, on_failure, on_complete)
        hooks = self._policies.registry.around_enqueue
        shown = [filled(job, self._policies) for job in self._binding.placed(jobs)] if hooks else jobs
        with around_enqueue(self._policies, shown) as passage:
            wanted = self._binding.complete(passage.jobs)
            made = await self._enqueue(new, wanted)
            passage.enqueued = made.jobs
        return made

    async def _enqueue(self, new: NewBatch, wanted: Sequence[NewJob]) -> EnqueuedBatch:
        ids = _ids.make_many(len(wanted))
        # After a deadlock the call is repeated as one statement, which locks its keys in order.
        sizes = repeat(None) if self._binding.is_within else chain([_PART], repeat(None))
        noted = not self._binding.is_within
        return await self._run(
            lambda: batch_create.enqueue_batch(
                new, wanted, ids, self._policies, at_once=next(sizes), noted=noted
            ),
            atomic=True,
            org_id=new.origin.org_id,
            scope=self._binding.scope_of_new,
        )

    async def open(
        self,
        *,
        on_success: NewJob | None = None,
        on_failure: NewJob | None = None,
        on_complete: NewJob | None = None,
        name: str | None = None,
    ) -> JobId:
        """Make a batch that accepts jobs by their `batch_id` until it is closed; return its id.

        Raises InvalidSetting for callbacks that are no jobs, and what `client.enqueue_many()` raises.
        """
        new = self._new(name, on_success, on_failure, on_complete)
        await self._run(
            lambda: batch_create.open_batch(new, self._policies),
            atomic=True,
            org_id=new.origin.org_id,
            scope=self._binding.scope_of_new,
        )
        return new.id

    async def close(self, batch_id: AnyJobId) -> None:
        """Stop accepting jobs from outside the batch.

        It waits for callers that are adding jobs. Raises BatchNotFound, and InvalidJob for a text that is no
        id.
        """
        wanted = normalise_id(batch_id, of="batch")
        # A handler that may enqueue a batch may also close it.
        await self._run(lambda: batches.close(wanted), atomic=True, scope=self._binding.scope)

    async def cancel(
        self, batch_id: AnyJobId, *, reason: str, limit: BulkLimit = _MANY, cursor: Cursor | None = None
    ) -> Bulk:
        """Cancel the jobs of a batch and close it, so that no job can be added any more.

        Its callbacks are enqueued when the running jobs have given way. Raises BatchNotFound.
        """
        wanted = normalise_id(batch_id, of="batch")
        covered = Range(listing="batches.cancel", limit=limit, cursor=cursor)
        return await self._binding.walk(
            cancel_many.cancel_batch(wanted, covered, self._policies, reason=reason)
        )

    async def get(self, batch_id: AnyJobId) -> Batch:
        """Return a batch and its progress; raises BatchNotFound, and InvalidJob for a text that is no id."""
        wanted = normalise_id(batch_id, of="batch")
        return await self._run(lambda: batches.get_one(wanted), write=False)

    async def list(
        self,
        *,
        name: str | None = None,
        ended: bool | None = None,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
    ) -> Page[Batch]:
        """Return a page of batches, newest first; raises InvalidSetting, and InvalidJob for a bad name."""
        return await self._run(
            lambda: batches.list_batches(name=name, ended=ended, limit=limit, cursor=cursor), write=False
        )

    async def jobs(
        self, batch_id: AnyJobId, *, limit: PageSize = 50, cursor: Cursor | None = None
    ) -> Page[Job]:
        """Return a page of the jobs of a batch, newest first, without its callbacks.

        Raises InvalidSetting, and InvalidJob for a text that is no id.
        """
        wanted = normalise_id(batch_id, of="batch")
        return await self._run(lambda: batches.list_jobs(wanted, limit=limit, cursor=cursor), write=False)

    def _new(self, name: str | None, *callbacks: NewJob | None) -> NewBatch:
        named = {name: new for name, new in zip(CALLBACKS, callbacks, strict=True) if new is not None}
        for callback, new in named.items():
            check_kind(callback, new, NewJob, "give what .build() returned, or a NewJob")
        jobs = self._binding.complete(named.values())
        # This job is never stored: it shows which org, project and actor a batch inherits here.
        [origin] = self._binding.placed([NewJob(job_type="batch")])
        batch_id, *ids = _ids.make_many(1 + len(jobs))
        return NewBatch(
            id=batch_id,
            origin=filled(origin, self._policies),
            name=name,
            callbacks=dict(zip(named, jobs, strict=True)),
            callback_ids=dict(zip(named, ids, strict=True)),
        )
