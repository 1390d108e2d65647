"""Cancel many jobs in one request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

from onward.clients.work.worker_client import AsyncWorking
from onward.core.jobs.filters import JobFilter
from onward.core.jobs.ids import JobId, normalise_id
from onward.operations.flows import batches
from onward.operations.jobs import cancel
from onward.operations.jobs.cancel import CancelledMany, CancelRequest, Picked, Stopped

Progress = Callable[[CancelledMany], None]
"""Called after each page with the totals so far."""

_MANY = 10_000


class AsyncCancelling(AsyncWorking):
    """Cancels waiting jobs at once and asks running jobs to give way; each request is audited."""

    async def cancel_where(
        self,
        where: JobFilter,
        *,
        reason: str,
        limit: int = _MANY,
        cursor: JobId | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CancelledMany:
        """Cancel the jobs that match a filter, oldest first, one page in each transaction.

        With `dry_run` they are only counted.
        """
        request = CancelRequest(chosen=cancel.of_filter(where), reason=reason, limit=limit)
        begin = CancelledMany(next_cursor=None if cursor is None else normalise_id(cursor))
        return await self._cancel(request, begin, dry_run=dry_run, progress=progress)

    async def cancel_subject(
        self,
        subject: str,
        *,
        reason: str,
        org_id: str | None = None,
        limit: int = _MANY,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CancelledMany:
        """Cancel the jobs of a subject."""
        chosen = cancel.of_subject(subject, org_id)
        request = CancelRequest(chosen=chosen, reason=reason, limit=limit)
        return await self._cancel(request, dry_run=dry_run, progress=progress)

    async def cancel_batch(
        self, batch_id: JobId | UUID, *, reason: str, limit: int = _MANY, progress: Progress | None = None
    ) -> CancelledMany:
        """Cancel the jobs of a batch and close it, so that no job can be added any more.

        Its callbacks are enqueued when the running jobs have given way. Raises BatchNotFound.
        """
        asked = normalise_id(batch_id)
        request = CancelRequest(chosen=cancel.of_batch(asked), reason=reason, limit=limit)
        request = await self._run(partial(cancel.refuse_more, request, asked))
        answer = await self._cancel(request, progress=progress)
        # Closing waits for callers that are adding jobs; the last pass cancels the jobs that they added.
        await self._run(lambda: batches.close(asked), atomic=True)
        return answer.joined(await self._pages(request, CancelledMany(), None, progress))

    async def cancel_flow(
        self, job_id: JobId | UUID, *, reason: str, dry_run: bool = False, progress: Progress | None = None
    ) -> CancelledMany:
        """Cancel a job, all jobs that wait for it, and all jobs that it has enqueued.

        The same holds for each of those jobs.
        """
        asked = normalise_id(job_id)
        chosen = await self._run(lambda: cancel.of_flow(asked), write=False)
        request = CancelRequest(chosen=chosen, reason=reason)
        ids = await self._run(lambda: cancel.find_flow(asked), write=False)
        if dry_run:
            return CancelledMany(found=len(ids))
        answer = CancelledMany()
        found: int | None = len(ids)
        while (ids and answer.found < request.limit) or found is not None:
            for at in range(0, max(len(ids), 1), cancel.AT_ONCE):
                page = Picked(ids[at : at + cancel.AT_ONCE], more=False)
                answer, found = answer.plus(page, await self._page(request, page, found)), None
                if progress is not None:
                    progress(answer)
            # Jobs that were running may have enqueued more in the meantime.
            ids = await self._run(lambda: cancel.find_flow(asked), write=False)
        return answer

    async def _cancel(
        self,
        request: CancelRequest,
        begin: CancelledMany = CancelledMany(),  # noqa: B008 - it never changes
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CancelledMany:
        counted = begin
        while True:
            picking = partial(cancel.pick, request, counted, count=True)
            counted = counted.plus(await self._run(picking, write=False), None)
            if counted.next_cursor is None or counted.found >= request.limit:
                break
        return counted if dry_run else await self._pages(request, begin, counted.found, progress)

    async def _pages(
        self, request: CancelRequest, answer: CancelledMany, found: int | None, progress: Progress | None
    ) -> CancelledMany:
        while True:
            picked = await self._run(partial(cancel.pick, request, answer), write=False)
            # One transaction for each page: what is cancelled stays cancelled if a later page fails.
            answer, found = answer.plus(picked, await self._page(request, picked, found)), None
            if progress is not None:
                progress(answer)
            if answer.next_cursor is None or answer.found >= request.limit:
                return answer

    async def _page(self, request: CancelRequest, picked: Picked, found: int | None) -> Stopped:
        stopped = await self._run(
            lambda: cancel.cancel_page(request, picked.ids, found=found, rules=self.rules), atomic=True
        )
        await self._settle_some(stopped.tied, slots=stopped.slots)
        return stopped
