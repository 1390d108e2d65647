"""Jobs: find them, read what happened to them, and cancel them."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from onward.clients.binding import AsyncBinding
from onward.core.jobs.filters import Counts, JobFilter, Page
from onward.core.jobs.history import Attempt, Dropped, Event
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import Job, JobState
from onward.core.policy.category import OnSubjectDelete
from onward.errors import JobNotFound
from onward.operations.jobs import cancel, cancel_many, inspect, subjects
from onward.operations.jobs.cancel import CancelledMany, CancelRequest

_MANY = 10_000

# Inside the class, `list` is a method.
Attempts = list[Attempt]
Events = list[Event]


class AsyncJobs:
    """Every job that was enqueued, waiting, running or ended, until its retention is over."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._run = binding.run
        self._policies = binding.policies

    async def get(self, job_id: JobId | UUID) -> Job:
        """Read a job, live or ended; raises JobNotFound."""
        asked = normalise_id(job_id)
        found = await self._run(lambda: inspect.get_many([asked]), write=False)
        if asked not in found:
            raise JobNotFound(f"no job {asked}; it was never enqueued here, or has been removed")
        return found[asked]

    async def get_many(self, ids: Collection[JobId]) -> dict[JobId, Job]:
        """Read jobs by id, live or ended; an unknown id is absent from the answer."""
        return await self._run(lambda: inspect.get_many(ids), write=False)

    async def list(
        self, where: JobFilter | None = None, *, limit: int = 50, cursor: JobId | None = None
    ) -> Page:
        """Read a page of jobs, newest first."""
        chosen = where or JobFilter()
        return await self._run(lambda: inspect.list_jobs(chosen, limit=limit, cursor=cursor), write=False)

    async def count(self, org_id: str | None = None) -> Counts:
        """Count live jobs by queue and state, and ended jobs up to a cap."""
        return await self._run(lambda: inspect.count(org_id), write=False)

    async def attempts(self, job_id: JobId | UUID) -> Attempts:
        """Read all attempts of a job, oldest first, including the one that runs now."""
        asked = normalise_id(job_id)
        return await self._run(lambda: inspect.attempts_of(asked), write=False)

    async def events(self, job_id: JobId | UUID) -> Events:
        """Read the audit events of a job, oldest first."""
        asked = normalise_id(job_id)
        return await self._run(lambda: inspect.events_of(asked), write=False)

    async def cancel(self, job_id: JobId | UUID, *, reason: str) -> JobState:
        """Cancel a waiting job at once, or ask a running one to give way; return its state now.

        Raises JobNotFound.
        """
        asked = normalise_id(job_id)
        stopped = await self._run(lambda: cancel.stop([asked], reason=reason))
        if asked not in stopped.states:
            raise JobNotFound(f"no job {asked}; it was never enqueued here, or has been removed")
        await self._binding.follow_up(stopped.tied, stopped.slots)
        return stopped.states[asked]

    async def cancel_where(
        self,
        where: JobFilter,
        *,
        reason: str,
        limit: int = _MANY,
        cursor: JobId | None = None,
        dry_run: bool = False,
    ) -> CancelledMany:
        """Cancel the jobs that match a filter, oldest first, one page in each transaction.

        With `dry_run` they are only counted. Call it again with the `next_cursor` of the answer while there
        is one.
        """
        request = CancelRequest(chosen=cancel.of_filter(where), reason=reason, limit=limit)
        begin = CancelledMany(next_cursor=None if cursor is None else normalise_id(cursor))
        return await self._binding.walk(
            cancel_many.cancel_found(self._binding.policies, request, begin, dry_run=dry_run)
        )

    async def cancel_subject(
        self,
        subject: str,
        *,
        reason: str,
        org_id: str | None = None,
        limit: int = _MANY,
        dry_run: bool = False,
    ) -> CancelledMany:
        """Cancel the jobs of a subject."""
        chosen = cancel.of_subject(subject, org_id)
        request = CancelRequest(chosen=chosen, reason=reason, limit=limit)
        return await self._binding.walk(cancel_many.cancel_found(self._policies, request, dry_run=dry_run))

    async def drop_subject(
        self,
        subject: str,
        *,
        rule: OnSubjectDelete | None = None,
        org_id: str | None = None,
        reason: str = "its subject was deleted",
    ) -> Dropped:
        """Cancel, delete or keep the jobs of a subject that is gone.

        Each category decides for its jobs, unless `rule` gives one policy for all of them.
        """
        return await self._run(
            lambda: subjects.drop_subject(subject, self._policies, rule=rule, org_id=org_id, reason=reason),
            atomic=True,
        )  # fmt: skip
