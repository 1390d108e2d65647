"""The async client: every operation on jobs, on Onward's own store or within the caller's transaction."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Any
from uuid import UUID

from onward.ambient import inherit
from onward.clients.parts_async import AsyncParts
from onward.core.arguments import check_kind
from onward.core.category import OnSubjectDelete
from onward.core.duration import Duration
from onward.core.filters import Counts, JobFilter, Page
from onward.core.ids import IdMaker, JobId, normalise_id
from onward.core.job import Enqueued, Job, JobState, NewJob
from onward.core.lifecycle import End, Outcome, Released
from onward.core.rules import DEFAULT_RULES, Rules
from onward.errors import JobNotFound
from onward.gathering import AsyncGathering
from onward.operations import control, enqueue, inspect, keys, leader, rescue, subjects, watch, work
from onward.operations.confined import in_org, org_of
from onward.operations.control import Controls, Scope
from onward.operations.inspect import Attempt, Event
from onward.operations.rescue import Promoted, Swept
from onward.operations.subjects import Dropped
from onward.operations.watch import Look, Watch
from onward.operations.work import Leases
from onward.stores import AsyncStore

__all__ = ["AsyncClient"]

LEASE = timedelta(seconds=30)
_PART = 2500

_ids = IdMaker(time.time_ns, os.urandom)


class AsyncClient(AsyncParts):
    """Enqueue, claim, finish and inspect jobs."""

    def __init__(
        self, url: str | None = None, *, store: AsyncStore | None = None, rules: Rules = DEFAULT_RULES
    ) -> None:
        super().__init__(url, store=store, rules=rules)
        # SQLite's writer commits together whatever waits for it.
        gathers = self.store.database == "postgres" and not self.store.row_security
        # Not by enqueue_many: who sends for others would have their jobs inherit from himself.
        self._gathering = AsyncGathering(self._enqueue_one, self._enqueue_all) if gathers else None

    async def enqueue(self, job: NewJob, *, now: datetime | None = None) -> Enqueued:
        """Store a job, or find the one that holds its key."""
        [job] = inherit(in_org([job], self.org_id), self.rules)
        alone = self._gathering is None or self._bound is not None or now is not None
        if self._gathering is None or alone or keys.changes_holder(job, self.rules):
            return await self._enqueue_one(job, now)
        return await self._gathering.ask(job)

    async def _enqueue_one(self, job: NewJob, now: datetime | None = None) -> Enqueued:
        job_id = _ids.make()
        # Not noted where the key would stay locked until the caller's commit.
        noted = self._bound is None
        return await self._run(
            lambda: enqueue.enqueue(job, job_id, self.rules, noted=noted, now=now),
            atomic=keys.changes_holder(job, self.rules),
            org_id=org_of([job]) if self.store.row_security else None,
        )

    async def enqueue_many(self, jobs: Iterable[NewJob], *, now: datetime | None = None) -> list[Enqueued]:
        """Store many jobs, all or none; answers in the order of asking."""
        check_kind("jobs", jobs, Iterable, "give a list of NewJob")
        return await self._enqueue_all(list(inherit(in_org(jobs, self.org_id), self.rules)), now)

    async def _enqueue_all(self, jobs: Sequence[NewJob], now: datetime | None = None) -> list[Enqueued]:
        ids = _ids.make_many(len(jobs))
        org = org_of(jobs) if self.store.row_security else None
        if self._bound is not None:
            return await self._run(
                lambda: enqueue.enqueue_many(jobs, ids, self.rules, noted=False, now=now), org_id=org
            )
        # A try that met a deadlock is repeated as one statement, which takes its keys in their order.
        sizes = chain([_PART], repeat(None))
        keyed = len(jobs) > 1 and any(isinstance(job, NewJob) and job.key is not None for job in jobs)
        changes = any(keys.changes_holder(job, self.rules) for job in jobs)
        return await self._run(
            lambda: enqueue.enqueue_many(jobs, ids, self.rules, at_once=next(sizes), now=now),
            atomic=keyed or changes or len(jobs) > _PART,
            org_id=org,
        )

    async def get(self, job_id: JobId | UUID) -> Job:
        """Read a job, live or ended; raises JobNotFound."""
        asked = normalise_id(job_id)
        found = await self._run(lambda: inspect.get_many([asked]), write=False)
        if asked not in found:
            raise JobNotFound(f"no job {asked}; it was never enqueued here, or has been removed")
        return found[asked]

    async def get_many(self, ids: Collection[JobId]) -> dict[JobId, Job]:
        """Read jobs by id, live or ended; an unknown one is absent from the answer."""
        return await self._run(lambda: inspect.get_many(ids), write=False)

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
        """Read all runs of a job, oldest first, with the one that runs now."""
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

    async def drop_subject(
        self,
        subject: str,
        *,
        rule: OnSubjectDelete | None = None,
        org_id: str | None = None,
        reason: str = "its subject was deleted",
        actor_type: str | None = None,
        actor_id: str | None = None,
        now: datetime | None = None,
    ) -> Dropped:
        """Cancel, delete or keep the jobs of a subject that is gone, each as its category says."""
        return await self._run(
            lambda: subjects.drop_subject(
                subject, self.rules, rule=rule, org_id=org_id, reason=reason, actor_type=actor_type,
                actor_id=actor_id, now=now,
            ),
            atomic=True,
        )  # fmt: skip

    async def pause(
        self,
        scope: Scope,
        name: str,
        *,
        reason: str,
        actor_type: str | None = None,
        actor_id: str | None = None,
        now: datetime | None = None,
    ) -> bool:
        """Have nothing claimed of a queue, an org or a job type; what runs goes on.

        False if it is paused for that reason already; another reason replaces the first one.
        """
        return await self._run(
            lambda: control.pause(
                scope, name, reason=reason, actor_type=actor_type, actor_id=actor_id, now=now
            )
        )

    async def resume(
        self,
        scope: Scope,
        name: str,
        *,
        reason: str | None = None,
        actor_type: str | None = None,
        actor_id: str | None = None,
        now: datetime | None = None,
    ) -> bool:
        """End a pause; False if there was none."""
        return await self._run(
            lambda: control.resume(
                scope, name, reason=reason, actor_type=actor_type, actor_id=actor_id, now=now
            )
        )

    async def close_gate(
        self,
        *,
        reason: str,
        actor_type: str | None = None,
        actor_id: str | None = None,
        now: datetime | None = None,
    ) -> bool:
        """Have nothing claimed at all; what runs goes on. False if it is closed for that reason already."""
        return await self._run(
            lambda: control.close_gate(reason=reason, actor_type=actor_type, actor_id=actor_id, now=now)
        )

    async def open_gate(
        self,
        *,
        reason: str | None = None,
        actor_type: str | None = None,
        actor_id: str | None = None,
        now: datetime | None = None,
    ) -> bool:
        """Let workers claim again; False if the gate was open."""
        return await self._run(
            lambda: control.open_gate(reason=reason, actor_type=actor_type, actor_id=actor_id, now=now)
        )

    async def controls(self, *, now: datetime | None = None) -> Controls:
        """Read the gate, the pauses, and which orgs have spent their budget."""
        return await self._run(lambda: control.controls(now=now), write=False)

    async def look(self, *, now: datetime | None = None) -> Look:
        """Tell which queues have a ready job, and when the next one is due."""
        return await self._run(lambda: watch.look(now=now), write=False)

    async def watch(self, worker_id: str, *, now: datetime | None = None) -> Watch:
        """Tell a worker whether its lease holds, which of its jobs to cancel, and what is paused."""
        return await self._run(lambda: watch.watch(worker_id, now=now), write=False)

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

    async def held(self, worker_id: str) -> list[Job]:
        """Give the running jobs of a worker."""
        return await self._run(lambda: rescue.find_held(worker_id), write=False)

    async def claim(
        self,
        queue: str,
        limit: int = 1,
        *,
        worker_id: str,
        paused_orgs: Collection[str] = (),
        paused_types: Collection[str] = (),
        now: datetime | None = None,
    ) -> list[Job]:
        """Take up to `limit` ready jobs of a queue under the worker's lease, most urgent first.

        Paused orgs and job types are passed over if named. Whether the queue is paused, a worker asks before.
        """
        paused = {"paused_orgs": paused_orgs, "paused_types": paused_types}
        return await self._run(lambda: work.claim(queue, limit, worker_id=worker_id, **paused, now=now))

    async def finish(self, ends: Sequence[tuple[Job, Outcome]], *, now: datetime | None = None) -> Leases:
        """Write what claimed jobs came to; says which leases still held."""
        advice = "give pairs of a claimed job and its outcome: [(job, Succeeded())]"
        check_kind("ends", ends, list | tuple, advice)
        for end in ends:
            check_kind("an end", end, tuple, advice)
            check_kind("its job", end[0], Job, advice)
        settled = [self.rules.end_of(job, outcome, random.random()) for job, outcome in ends]  # noqa: S311
        return await self._run(lambda: work.finish(settled, now=now))

    async def write(
        self, ends: Sequence[End], *, org_id: str | None = None, now: datetime | None = None
    ) -> Leases:
        """Write ends that are settled already; says which leases still held.

        `org_id` is whose jobs they are, where the database has policies.
        """
        metered = any(end.usage for end in ends)
        return await self._run(lambda: work.finish(ends, now=now), atomic=metered, org_id=org_id)

    async def release(
        self, jobs: Collection[Job], *, delay: Duration | None = None, now: datetime | None = None
    ) -> Leases:
        """Give claimed jobs back unfinished, at once or after a delay; burns no attempt."""
        return await self.finish([(job, Released(delay)) for job in _claimed(jobs)], now=now)

    async def rescue(self, limit: int = 500, *, now: datetime | None = None) -> Leases:
        """Take back the jobs of workers whose lease ran out."""
        return await self._run(lambda: rescue.rescue(limit, rules=self.rules, dice=random.random, now=now))

    async def rescue_worker(self, worker_id: str, *, now: datetime | None = None) -> Leases:
        """Take back all that a worker held which is known to be dead, without waiting for its lease."""
        return await self._run(
            lambda: rescue.rescue_worker(worker_id, rules=self.rules, dice=random.random, now=now)
        )

    async def sweep(
        self, worker_id: str, *, ttl: timedelta = LEASE, limit: int = 500, now: datetime | None = None
    ) -> Swept:
        """Take back the jobs of workers whose lease ran out, if this worker leads in doing so."""
        return await self._run(
            lambda: rescue.sweep(
                worker_id, ttl=ttl, limit=limit, rules=self.rules, dice=random.random, now=now
            )
        )

    async def lead(
        self, name: str, worker_id: str, *, ttl: timedelta = LEASE, now: datetime | None = None
    ) -> bool:
        """Take the lead in something, or keep it; False while another worker has it."""
        return await self._run(lambda: leader.lead(name, worker_id, ttl=ttl, now=now))

    async def abdicate(self, worker_id: str) -> frozenset[str]:
        """Give up every lead of a worker; tells which it had."""
        return await self._run(lambda: leader.abdicate(worker_id))

    async def promote(self, limit: int = 500, *, now: datetime | None = None) -> Promoted:
        """Make due jobs ready; says when the next one is due."""
        return await self._run(lambda: rescue.promote(limit, now=now))


def _claimed(jobs: Collection[Job]) -> Collection[Job]:
    check_kind("jobs", jobs, Collection, "give a list of jobs that claim() gave you")
    for job in jobs:
        check_kind("a job", job, Job, "give jobs that claim() gave you")
    return jobs
