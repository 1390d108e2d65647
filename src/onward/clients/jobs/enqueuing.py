"""Enqueue jobs: one, many at once, or a flow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onward.clients.binding import AsyncBinding
from onward.clients.enqueue_groups import AsyncGathering
from onward.clients.jobs.enqueue_hooks import around_enqueue
from onward.clients.jobs.storing import AsyncStoring, ids
from onward.core.flows.flow import Flow, group
from onward.core.inputs.checks import check_kind
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Enqueued, NewJob
from onward.core.jobs.scope import ALL
from onward.operations.jobs import enqueue, key_conflicts
from onward.origin import filled, names_another_parent


class AsyncEnqueuing:
    """Fills in and stores jobs; calls that come at the same time share one statement.

    Clients that differ only in their org, project or actor share statements, too: `bound_to` keeps the
    gathering, which sends them by the binding of the client that was opened.
    """

    def __init__(
        self, binding: AsyncBinding, gathering: AsyncGathering[NewJob, Enqueued] | None = None
    ) -> None:
        self._binding = binding
        self._policies = binding.policies
        self._hooks = binding.policies.registry.around_enqueue
        self._storing = AsyncStoring(binding)
        security = binding.store.row_security
        self._gathers = not (security or binding.is_within or binding.bound.instant is not None)
        self._gathering = gathering or AsyncGathering(self._storing.store_gathered, self._storing.store_group)

    def bound_to(self, binding: AsyncBinding) -> AsyncEnqueuing:
        """Return the same for another binding of the store."""
        return AsyncEnqueuing(binding, self._gathering)

    async def enqueue(self, job: NewJob) -> Enqueued:
        """Store a job, or find the job that holds its key."""
        if self._hooks:
            with around_enqueue(self._policies, self._shown([job])) as passage:
                passage.enqueued = [await self._enqueue(*passage.jobs)]
            return passage.enqueued[0]
        return await self._enqueue(job)

    async def _enqueue(self, job: NewJob) -> Enqueued:
        [job] = self._binding.complete([job])
        if self._gathers and not self._goes_alone(job):
            return await self._gathering.ask(job)
        return await self._storing.store(job, self._binding.scope_of_new)

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Enqueued]:
        """Store many jobs, all or none; return the answers in the order of `jobs`."""
        check_kind("jobs", jobs, Iterable, "give a list of NewJob")
        if self._hooks:
            with around_enqueue(self._policies, self._shown(jobs)) as passage:
                passage.enqueued = await self._store_many(self._binding.complete(passage.jobs))
            return list(passage.enqueued)
        return await self._store_many(self._binding.complete(jobs))

    async def enqueue_flow(self, flow: Flow | NewJob) -> list[Enqueued]:
        """Store the jobs of a flow, all or none; return the answers in the order of `flow.jobs`."""
        grouped = group(flow)
        job_ids = ids.make_many(len(grouped.jobs))
        shown = self._shown(grouped.jobs) if self._hooks else grouped.jobs
        with around_enqueue(self._policies, shown) as passage:
            placed = grouped.placed(self._binding.complete(passage.jobs), job_ids)
            passage.enqueued = await self._store_many(placed, job_ids)
        return list(passage.enqueued)

    def _shown(self, jobs: Iterable[NewJob]) -> list[NewJob]:
        """Return the jobs as the application's functions see them: with what they inherit."""
        return [filled(new, self._policies) for new in self._binding.placed(jobs)]

    async def _store_many(
        self, jobs: Sequence[NewJob], job_ids: Sequence[JobId] | None = None
    ) -> list[Enqueued]:
        return await self._storing.store_many(jobs, self._binding.scope_of_new, job_ids)

    def _goes_alone(self, job: NewJob) -> bool:
        """Whether a job needs several statements, or the org of its parent has to be read."""
        if enqueue.tied(job) or key_conflicts.changes_holder(job, self._policies):
            return True
        return names_another_parent(job, confined=self._binding.bound.scope != ALL)
