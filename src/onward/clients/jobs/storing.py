"""Store jobs that were checked and filled in: one, or many by one call."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import chain, repeat

from onward.clients.binding import AsyncBinding
from onward.core.jobs.ids import IdMaker, JobId
from onward.core.jobs.job import Enqueued, NewJob
from onward.core.jobs.scope import Scope
from onward.operations.jobs import enqueue, key_conflicts
from onward.operations.tenancy import org_of

_PART = 2500

ids = IdMaker(time.time_ns, os.urandom)


class AsyncStoring:
    """Stores jobs; `scope` is the org and project to which the caller is confined."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._policies = binding.policies
        self._row_security = binding.store.row_security

    # The caller that sends a group must pass on neither its origin nor its scope to the jobs of the other
    # callers. What a handler may enqueue was checked when each of them inherited its origin.
    async def store_gathered(self, job: NewJob) -> Enqueued:
        """Store a job under the scope of this client, whatever code runs here."""
        return await self.store(job, self._binding.bound.scope)

    async def store_group(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store the jobs of several callers under the scope of this client, whatever code runs here."""
        return await self.store_many(jobs, self._binding.bound.scope)

    async def store(self, job: NewJob, scope: Scope) -> Enqueued:
        """Store a job, or find the job that holds its key."""
        job_id = ids.make()
        # In a caller's transaction the ledger does not note a repeated request: the key's row would stay
        # locked until the commit.
        noted = not self._binding.is_within
        return await self._binding.run(
            lambda: enqueue.enqueue(job, job_id, self._policies, noted=noted),
            atomic=enqueue.tied(job) or key_conflicts.changes_holder(job, self._policies),
            org_id=org_of([job]) if self._row_security else None,
            scope=scope,
        )

    async def store_many(
        self, jobs: Sequence[NewJob], scope: Scope, job_ids: Sequence[JobId] | None = None
    ) -> list[Enqueued]:
        """Store many jobs, all or none."""
        job_ids = job_ids or ids.promise(len(jobs))
        org = org_of(jobs) if self._row_security else None
        if self._binding.is_within:
            return await self._binding.run(
                lambda: enqueue.enqueue_many(jobs, job_ids, self._policies, noted=False),
                org_id=org,
                scope=scope,
            )
        # After a deadlock the call is repeated as one statement, which locks its keys in order.
        sizes = chain([_PART], repeat(None))
        return await self._binding.run(
            lambda: enqueue.enqueue_many(jobs, job_ids, self._policies, at_once=next(sizes)),
            atomic=len(jobs) > _PART or self._takes_several(jobs),
            org_id=org,
            scope=scope,
        )

    def _takes_several(self, jobs: Sequence[NewJob]) -> bool:
        """Whether storing these jobs may need more than one statement."""
        if len(jobs) > 1 and any(isinstance(job, NewJob) and job.key is not None for job in jobs):
            return True
        return any(enqueue.tied(job) or key_conflicts.changes_holder(job, self._policies) for job in jobs)
