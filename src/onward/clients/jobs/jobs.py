"""Jobs: find them, read what happened to them, and cancel them."""

from __future__ import annotations

from collections.abc import Collection

from onward.clients.binding import AsyncBinding
from onward.core.bulk import Bulk, BulkLimit
from onward.core.jobs.filters import Counts, JobFilter, Order
from onward.core.jobs.history import Attempt, Cancellation, Dropped, Event
from onward.core.jobs.ids import AnyJobId, JobId, normalise_id
from onward.core.jobs.job import Job
from onward.core.jobs.scope import ALL
from onward.core.page import MOST_PER_PAGE, Cursor, Page, PageSize
from onward.core.policy.category import OnSubjectDelete
from onward.errors import JobNotFound
from onward.operations.jobs import cancel, cancel_many, inspect, listing, run_now, subjects
from onward.operations.jobs.cancel import Chosen
from onward.operations.walk import Range

_MANY = 10_000


class AsyncJobs:
    """Every job that was enqueued, waiting, running or ended, until its retention is over."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._run = binding.run
        self._policies = binding.policies

    async def get(self, job_id: AnyJobId) -> Job:
        """Read a job, live or ended; raises JobNotFound."""
        wanted = normalise_id(job_id)
        found = await self._run(lambda: inspect.get_many([wanted]), write=False)
        if wanted not in found:
            raise _not_found(wanted)
        return found[wanted]

    async def get_many(self, ids: Collection[AnyJobId]) -> dict[JobId, Job]:
        """Read jobs by id, live or ended; an unknown id is absent from the answer."""
        return await self._run(lambda: inspect.get_many(ids), write=False)

    async def list(
        self,
        where: JobFilter | None = None,
        *,
        order: Order = "newest",
        limit: PageSize = 50,
        cursor: Cursor | None = None,
    ) -> Page[Job]:
        """Read a page of jobs, newest or oldest first; raises InvalidSetting for a state that does not exist.

        A page looks at a bounded number of jobs. If few of them match, it has `searched_to` and a cursor.
        """
        chosen, confined = where or JobFilter(), self._binding.scope != ALL
        return await self._run(
            lambda: listing.list_jobs(chosen, order=order, limit=limit, cursor=cursor, confined=confined),
            write=False,
        )

    async def count(self) -> Counts:
        """Count live jobs by queue and state, and the newest ended jobs by state; each count has a cap."""
        return await self._run(inspect.count, write=False)

    async def attempts(
        self, job_id: AnyJobId, *, limit: PageSize = MOST_PER_PAGE, cursor: Cursor | None = None
    ) -> Page[Attempt]:
        """Read a page of the attempts of a job, oldest first; the last may be running now."""
        wanted = normalise_id(job_id)
        return await self._run(lambda: inspect.attempts_of(wanted, limit=limit, cursor=cursor), write=False)

    async def events(
        self, job_id: AnyJobId, *, limit: PageSize = MOST_PER_PAGE, cursor: Cursor | None = None
    ) -> Page[Event]:
        """Read a page of the audit events of a job, oldest first."""
        wanted = normalise_id(job_id)
        return await self._run(lambda: inspect.events_of(wanted, limit=limit, cursor=cursor), write=False)

    async def cancel(self, job_id: AnyJobId, *, reason: str) -> Cancellation:
        """Cancel a waiting job at once, or ask a running one to give way; raises JobNotFound.

        A job that has ended stays as it is.
        """
        wanted = normalise_id(job_id)
        stopped = await self._run(lambda: cancel.stop([wanted], reason=reason))
        if wanted not in stopped.states:
            raise _not_found(wanted)
        await self._binding.follow_up(stopped.tied, stopped.permits)
        return Cancellation(wanted, stopped.states[wanted])

    async def run_now(self, job_id: AnyJobId, *, reason: str) -> Job:
        """Let a job that waits for its time or its retry run now; return it, due.

        Raises JobNotFound, and JobNotScheduled for a job that waits for something else, runs or has ended.
        """
        wanted = normalise_id(job_id)
        return await self._run(lambda: run_now.run_now(wanted, reason=reason), atomic=True)

    async def cancel_where(
        self,
        where: JobFilter,
        *,
        reason: str,
        limit: BulkLimit = _MANY,
        cursor: Cursor | None = None,
        dry_run: bool = False,
    ) -> Bulk:
        """Cancel the jobs that match a filter, oldest first, one page in each transaction.

        With `dry_run` they are only counted. Raises InvalidSetting for a filter without a condition, or of
        jobs that have ended.
        """
        covered = Range(listing="jobs.cancel", limit=limit, cursor=cursor)
        return await self._cancel(cancel.of_filter(where), covered, reason, dry_run=dry_run)

    async def cancel_subject(
        self,
        subject: str,
        *,
        reason: str,
        limit: BulkLimit = _MANY,
        cursor: Cursor | None = None,
        dry_run: bool = False,
    ) -> Bulk:
        """Cancel the jobs of a subject, as `cancel_where` does."""
        covered = Range(listing="jobs.cancel_subject", limit=limit, cursor=cursor)
        return await self._cancel(cancel.of_subject(subject), covered, reason, dry_run=dry_run)

    async def drop_subject(
        self,
        subject: str,
        *,
        policy: OnSubjectDelete | None = None,
        reason: str = "its subject was deleted",
    ) -> Dropped:
        """Cancel, delete or keep the jobs of a subject that is gone.

        Each category has a policy for its jobs, unless `policy` gives one for all of them.
        """
        return await self._run(
            lambda: subjects.drop_subject(subject, self._policies, policy=policy, reason=reason), atomic=True
        )

    async def _cancel(self, chosen: Chosen, covered: Range, reason: str, *, dry_run: bool) -> Bulk:
        return await self._binding.walk(
            cancel_many.cancel_chosen(chosen, covered, self._policies, reason=reason, dry_run=dry_run),
            dry_run=dry_run,
        )


def _not_found(job_id: JobId) -> JobNotFound:
    return JobNotFound(f"no job {job_id}; it was never enqueued here, or has been removed")
