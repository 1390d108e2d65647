"""Flows: read which jobs wait for which, and cancel them together."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from onward.clients.binding import AsyncBinding
from onward.core.bulk import Bulk
from onward.core.flows.graph import Graph
from onward.core.jobs.ids import AnyJobId, normalise_id
from onward.core.jobs.job import Job
from onward.core.page import Cursor, Page, PageSize
from onward.operations.flows import graph
from onward.operations.jobs import cancel_many


class AsyncFlows:
    """Reads and cancels what a job waits for, what waits for it, and what it has enqueued.

    Every method raises JobNotFound, InvalidJob for a text that is no id, and InvalidSetting for a bad limit
    or cursor.
    """

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._run = binding.run

    async def parents(
        self, job_id: AnyJobId, *, limit: PageSize = 50, cursor: Cursor | None = None
    ) -> Page[Job]:
        """Return the jobs that this job waits for or has waited for, with their results, oldest first."""
        wanted = normalise_id(job_id)
        return await self._run(lambda: graph.parents(wanted, limit, cursor), write=False)

    async def followers(
        self, job_id: AnyJobId, *, limit: PageSize = 50, cursor: Cursor | None = None
    ) -> Page[Job]:
        """Return the jobs that wait for this job or have waited for it, oldest first."""
        wanted = normalise_id(job_id)
        return await self._run(lambda: graph.followers(wanted, limit, cursor), write=False)

    async def children(
        self, job_id: AnyJobId, *, limit: PageSize = 50, cursor: Cursor | None = None
    ) -> Page[Job]:
        """Return the jobs that the handler of this job has enqueued, oldest first."""
        wanted = normalise_id(job_id)
        return await self._run(lambda: graph.children(wanted, limit, cursor), write=False)

    async def graph(
        self, job_id: AnyJobId, *, limit: Annotated[int, Meta(ge=1, le=graph.MOST_SHOWN)] = 200
    ) -> Graph:
        """Return the flow that a job is part of, as jobs and links: at most `limit` jobs."""
        wanted = normalise_id(job_id)
        return await self._run(lambda: graph.graph(wanted, limit), write=False)

    async def cancel(self, job_id: AnyJobId, *, reason: str, dry_run: bool = False) -> Bulk:
        """Cancel a job, all jobs that wait for it, and all jobs that it has enqueued.

        The same holds for each of those jobs.
        """
        wanted = normalise_id(job_id)
        return await self._binding.walk(
            cancel_many.cancel_flow(wanted, self._binding.policies, reason=reason, dry_run=dry_run),
            dry_run=dry_run,
        )
