"""The async client: every operation on jobs, on Onward's own store or within the caller's transaction."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Any, Self, TypeVar
from uuid import UUID

from onward.connections import AsyncConnection, adapt_async, require_tables, run_async
from onward.core.arguments import check_kind
from onward.core.filters import Counts, JobFilter, Page
from onward.core.ids import IdMaker, JobId, normalise_id
from onward.core.job import Enqueued, Job, JobState, NewJob
from onward.core.lifecycle import End, Outcome, Released
from onward.errors import JobNotFound
from onward.operations import control, enqueue, inspect, rescue, work
from onward.operations.inspect import Attempt, Event
from onward.operations.rescue import Promoted, policy_of
from onward.operations.statement import Operation
from onward.operations.work import Leases
from onward.stores import AsyncStore, open_async_store
from onward.stores.migrations import Plan

__all__ = ["AsyncClient"]

T = TypeVar("T")

LEASE = timedelta(seconds=30)
_PART = 2500

_ids = IdMaker(time.time_ns, os.urandom)


class AsyncClient:
    """Enqueue, claim, finish and inspect jobs."""

    def __init__(self, url: str | None = None, *, store: AsyncStore | None = None) -> None:
        self.store = store or open_async_store(url)
        self._bound: AsyncConnection | None = None

    async def __aenter__(self) -> Self:
        """Use the client as a context, which closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        await self.close()

    async def close(self) -> None:
        """Let go of the database."""
        await self.store.close()

    def within(self, tx: object) -> AsyncClient:
        """Give this client bound to the caller's open transaction.

        Nothing is committed, rolled back or swallowed here: what the caller's transaction does decides.
        """
        bound = AsyncClient(store=self.store)
        bound._bound = adapt_async(tx, self.store.database, self.store.prefix)
        return bound

    async def migrate(self) -> Plan:
        """Bring the schema up to this code; gives what was to do before."""
        return await self.store.migrate()

    async def plan(self) -> Plan:
        """Compare the schema with this code; changes nothing."""
        return await self.store.plan()

    async def enqueue(self, job: NewJob, *, now: datetime | None = None) -> Enqueued:
        """Store a job, or find the one that holds its key."""
        job_id = _ids.make()
        return await self._run(lambda: enqueue.enqueue(job, job_id, now=now))

    async def enqueue_many(self, jobs: Iterable[NewJob], *, now: datetime | None = None) -> list[Enqueued]:
        """Store many jobs, all or none; answers in the order of asking."""
        check_kind("jobs", jobs, Iterable, "give a list of NewJob")
        jobs = list(jobs)
        ids = _ids.make_many(len(jobs))
        if self._bound is not None:
            return await self._run(lambda: enqueue.enqueue_many(jobs, ids, now=now))
        # A try that met a deadlock is repeated as one statement, which takes its keys in their order.
        sizes = chain([_PART], repeat(None))
        keyed = len(jobs) > 1 and any(isinstance(job, NewJob) and job.key is not None for job in jobs)
        return await self._run(
            lambda: enqueue.enqueue_many(jobs, ids, at_once=next(sizes), now=now),
            atomic=keyed or len(jobs) > _PART,
        )

    async def get(self, job_id: JobId | UUID) -> Job:
        """Read a job, live or ended; raises JobNotFound."""
        asked = normalise_id(job_id)
        found = await self._run(lambda: inspect.get_many([asked]), write=False)
        if asked not in found:
            raise JobNotFound(f"no job {asked}; it was never enqueued here, or has been removed")
        return found[asked]

    async def list_jobs(
        self,
        where: JobFilter | None = None,
        *,
        limit: int = 50,
        cursor: JobId | None = None,
        now: datetime | None = None,
    ) -> Page:
        """Read a page of jobs, newest first."""
        chosen = where or JobFilter()
        return await self._run(
            lambda: inspect.list_jobs(chosen, limit=limit, cursor=cursor, now=now), write=False
        )

    async def count(self, org_id: str | None = None) -> Counts:
        """Count live jobs by queue and state, and ended ones up to a cap."""
        return await self._run(lambda: inspect.count(org_id), write=False)

    async def attempts(self, job_id: JobId | UUID) -> list[Attempt]:
        """Read the earlier runs of a job, oldest first."""
        asked = normalise_id(job_id)
        return await self._run(lambda: inspect.attempts_of(asked), write=False)

    async def events(self, job_id: JobId | UUID) -> list[Event]:
        """Read the audit of a job, oldest first."""
        asked = normalise_id(job_id)
        return await self._run(lambda: inspect.events_of(asked), write=False)

    async def cancel(
        self,
        job_id: JobId | UUID,
        *,
        reason: str,
        actor_type: str | None = None,
        actor_id: str | None = None,
        now: datetime | None = None,
    ) -> JobState:
        """Cancel a waiting job at once, or ask a running one to give way; gives the state it is in now."""
        asked = normalise_id(job_id)
        states = await self._run(
            lambda: control.cancel([asked], reason=reason, actor_type=actor_type, actor_id=actor_id, now=now)
        )
        if asked not in states:
            raise JobNotFound(f"no job {asked}; it was never enqueued here, or has been removed")
        return states[asked]

    async def register(
        self,
        worker_id: str,
        *,
        lease: timedelta = LEASE,
        info: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> None:
        """Give a worker its lease; an id serves one life of one process."""
        await self._run(lambda: work.register(worker_id, lease=lease, info=info, now=now))

    async def extend(
        self,
        worker_id: str,
        jobs: Collection[Job],
        *,
        lease: timedelta = LEASE,
        idle: bool = False,
        now: datetime | None = None,
    ) -> Leases:
        """Renew a worker's lease, and learn which of these jobs it still holds."""
        leases = {job.id: job.lease for job in _claimed(jobs)}
        return await self._run(lambda: work.extend(worker_id, leases, lease=lease, idle=idle, now=now))

    async def retire(self, worker_id: str, *, now: datetime | None = None) -> bool:
        """End a worker's lease at once: what it still holds can be rescued."""
        return await self._run(lambda: work.retire(worker_id, now=now))

    async def claim(
        self, queue: str, limit: int = 1, *, worker_id: str, now: datetime | None = None
    ) -> list[Job]:
        """Take up to `limit` ready jobs of a queue under the worker's lease, most urgent first."""
        return await self._run(lambda: work.claim(queue, limit, worker_id=worker_id, now=now))

    async def finish(self, ends: Sequence[tuple[Job, Outcome]], *, now: datetime | None = None) -> Leases:
        """Write what claimed jobs came to; says which leases still held."""
        advice = "give pairs of a claimed job and its outcome: [(job, Succeeded())]"
        check_kind("ends", ends, list | tuple, advice)
        for end in ends:
            check_kind("an end", end, tuple, advice)
            check_kind("its job", end[0], Job, advice)
        settled = [End.of(job, outcome, policy_of(job), random.random()) for job, outcome in ends]  # noqa: S311
        return await self._run(lambda: work.finish(settled, now=now))

    async def release(self, jobs: Collection[Job], *, now: datetime | None = None) -> Leases:
        """Give claimed jobs back unfinished; burns no attempt."""
        return await self.finish([(job, Released()) for job in _claimed(jobs)], now=now)

    async def rescue(self, limit: int = 500, *, now: datetime | None = None) -> Leases:
        """Take back the jobs of workers whose lease ran out."""
        return await self._run(lambda: rescue.rescue(limit, dice=random.random, now=now))

    async def promote(self, limit: int = 500, *, now: datetime | None = None) -> Promoted:
        """Make due jobs ready; says when the next one is due."""
        return await self._run(lambda: rescue.promote(limit, now=now))

    async def _run(self, make: Callable[[], Operation[T]], *, write: bool = True, atomic: bool = False) -> T:
        if self._bound is None:
            return await self.store.run(make, write=write, atomic=atomic)
        # Asked again each time: the transaction may have ended since within().
        self._bound.require_transaction()
        await run_async(require_tables(self._bound), self._bound)
        return await run_async(make(), self._bound)


def _claimed(jobs: Collection[Job]) -> Collection[Job]:
    check_kind("jobs", jobs, Collection, "give a list of jobs that claim() gave you")
    for job in jobs:
        check_kind("a job", job, Job, "give jobs that claim() gave you")
    return jobs
