"""Enqueue jobs: one, many at once, or a flow."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from itertools import chain, repeat

from onward.clients.binding import AsyncBinding
from onward.clients.enqueue_groups import AsyncGathering
from onward.clients.jobs.enqueue_hooks import around_enqueue
from onward.core.flows.flow import Flow, group
from onward.core.inputs.checks import check_kind
from onward.core.jobs.ids import IdMaker, JobId
from onward.core.jobs.job import Enqueued, NewJob
from onward.operations.jobs import enqueue, key_conflicts
from onward.operations.tenancy import org_of
from onward.origin import filled, inherit

_PART = 2500

_ids = IdMaker(time.time_ns, os.urandom)


class AsyncEnqueuing:
    """Stores jobs; calls that come at the same time share one statement."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._policies = binding.policies
        self._hooks = binding.policies.registry.around_enqueue
        self._row_security = binding.store.row_security
        # `_enqueue_all`, not `enqueue_many`: the caller that sends a group would otherwise pass its own
        # origin on to the jobs of the other callers.
        gathers = not (self._row_security or binding.is_within or binding.bound.instant is not None)
        self._gathering = AsyncGathering(self._enqueue_one, self._enqueue_all) if gathers else None

    async def enqueue(self, job: NewJob) -> Enqueued:
        """Store a job, or find the job that holds its key."""
        if self._hooks:
            with around_enqueue(self._hooks, self._shown([job])) as passage:
                passage.enqueued = [await self._enqueue(*passage.jobs)]
            return passage.enqueued[0]
        return await self._enqueue(job)

    async def _enqueue(self, job: NewJob) -> Enqueued:
        [job] = inherit(self._binding.placed([job]), self._policies)
        several = enqueue.tied(job) or key_conflicts.changes_holder(job, self._policies)
        if self._gathering is None or several:
            return await self._enqueue_one(job, atomic=several)
        return await self._gathering.ask(job)

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Enqueued]:
        """Store many jobs, all or none; return the answers in the order of `jobs`."""
        check_kind("jobs", jobs, Iterable, "give a list of NewJob")
        if self._hooks:
            with around_enqueue(self._hooks, self._shown(jobs)) as passage:
                passage.enqueued = await self._enqueue_all(self._complete(passage.jobs))
            return list(passage.enqueued)
        return await self._enqueue_all(self._complete(jobs))

    async def enqueue_flow(self, flow: Flow | NewJob) -> list[Enqueued]:
        """Store the jobs of a flow, all or none; return the answers in the order of `flow.jobs`."""
        grouped = group(flow)
        ids = _ids.make_many(len(grouped.jobs))
        shown = self._shown(grouped.jobs) if self._hooks else grouped.jobs
        with around_enqueue(self._hooks, shown) as passage:
            jobs = self._complete(passage.jobs)
            passage.enqueued = await self._enqueue_all(grouped.placed(jobs, ids), ids)
        return list(passage.enqueued)

    def _shown(self, jobs: Iterable[NewJob]) -> list[NewJob]:
        """Return the jobs as the application's functions see them: with what they inherit."""
        return [filled(new, self._policies) for new in self._binding.placed(jobs)]

    def _complete(self, jobs: Iterable[NewJob]) -> list[NewJob]:
        return list(inherit(self._binding.placed(jobs), self._policies))

    async def _enqueue_one(self, job: NewJob, *, atomic: bool = False) -> Enqueued:
        job_id = _ids.make()
        # In a caller's transaction the ledger does not note a repeated request: the key's row would stay
        # locked until the commit.
        noted = not self._binding.is_within
        return await self._binding.run(
            lambda: enqueue.enqueue(job, job_id, self._policies, noted=noted),
            atomic=atomic,
            org_id=org_of([job]) if self._row_security else None,
        )

    async def _enqueue_all(
        self, jobs: Sequence[NewJob], ids: Sequence[JobId] | None = None
    ) -> list[Enqueued]:
        ids = ids or _ids.promise(len(jobs))
        org = org_of(jobs) if self._row_security else None
        if self._binding.is_within:
            return await self._binding.run(
                lambda: enqueue.enqueue_many(jobs, ids, self._policies, noted=False), org_id=org
            )
        # After a deadlock the call is repeated as one statement, which locks its keys in order.
        sizes = chain([_PART], repeat(None))
        return await self._binding.run(
            lambda: enqueue.enqueue_many(jobs, ids, self._policies, at_once=next(sizes)),
            atomic=len(jobs) > _PART or self._takes_several(jobs),
            org_id=org,
        )

    def _takes_several(self, jobs: Sequence[NewJob]) -> bool:
        """Whether storing these jobs may need more than one statement."""
        if len(jobs) > 1 and any(isinstance(job, NewJob) and job.key is not None for job in jobs):
            return True
        return any(enqueue.tied(job) or key_conflicts.changes_holder(job, self._policies) for job in jobs)
