"""The async client: every operation on jobs, on Onward's own store or within the caller's transaction."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, repeat
from uuid import UUID

from onward.clients.enqueue_groups import AsyncGathering
from onward.clients.jobs.cancelling import AsyncCancelling
from onward.core.flows.flow import Flow, group
from onward.core.inputs.checks import check_kind
from onward.core.jobs.filters import Counts, JobFilter, Page
from onward.core.jobs.history import Attempt, Dropped, Event
from onward.core.jobs.ids import IdMaker, JobId, normalise_id
from onward.core.jobs.job import Enqueued, Job, JobState, NewJob
from onward.core.limits.pause import Controls, Scope
from onward.core.policy.category import OnSubjectDelete
from onward.core.policy.rules import DEFAULT_RULES, Rules
from onward.errors import JobNotFound
from onward.operations.jobs import cancel, enqueue, inspect, key_conflicts, subjects
from onward.operations.limits import pauses
from onward.operations.tenancy import org_of
from onward.origin import inherit
from onward.stores import AsyncStore

_PART = 2500

_ids = IdMaker(time.time_ns, os.urandom)


class AsyncClient(AsyncCancelling):
    """Enqueue, claim, finish and inspect jobs."""

    def __init__(
        self, url: str | None = None, *, store: AsyncStore | None = None, rules: Rules = DEFAULT_RULES
    ) -> None:
        super().__init__(url, store=store, rules=rules)
        gathers = not self.store.row_security
        # `_enqueue_all`, not `enqueue_many`: the caller that sends a group would otherwise pass its own
        # origin on to the jobs of the other callers.
        self._gathering = AsyncGathering(self._enqueue_one, self._enqueue_all) if gathers else None

    async def enqueue(self, job: NewJob) -> Enqueued:
        """Store a job, or find the job that holds its key."""
        [job] = inherit(self._binding.placed([job]), self.rules)
        several = enqueue.tied(job) or key_conflicts.changes_holder(job, self.rules)
        if self._gathering is None or several or self._binding.is_within or self.bound.instant is not None:
            return await self._enqueue_one(job, atomic=several)
        return await self._gathering.ask(job)

    async def _enqueue_one(self, job: NewJob, *, atomic: bool = False) -> Enqueued:
        job_id = _ids.make()
        # In a caller's transaction the ledger does not note a repeated request: the key's row would stay
        # locked until the commit.
        noted = not self._binding.is_within
        return await self._run(
            lambda: enqueue.enqueue(job, job_id, self.rules, noted=noted),
            atomic=atomic,
            org_id=org_of([job]) if self.store.row_security else None,
        )

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Enqueued]:
        """Store many jobs, all or none; return the answers in the order of `jobs`."""
        check_kind("jobs", jobs, Iterable, "give a list of NewJob")
        return await self._enqueue_all(list(inherit(self._binding.placed(jobs), self.rules)))

    async def enqueue_flow(self, flow: Flow | NewJob) -> list[Enqueued]:
        """Store the jobs of a flow, all or none; return the answers in the order of `flow.jobs`."""
        whole = group(flow)
        jobs = list(inherit(self._binding.placed(whole.jobs), self.rules))
        ids = _ids.make_many(len(jobs))
        return await self._enqueue_all(whole.placed(jobs, ids), ids)

    async def _enqueue_all(
        self, jobs: Sequence[NewJob], ids: Sequence[JobId] | None = None
    ) -> list[Enqueued]:
        ids = ids or _ids.promise(len(jobs))
        org = org_of(jobs) if self.store.row_security else None
        if self._binding.is_within:
            return await self._run(
                lambda: enqueue.enqueue_many(jobs, ids, self.rules, noted=False), org_id=org
            )
        # After a deadlock the call is repeated as one statement, which locks its keys in order.
        sizes = chain([_PART], repeat(None))
        return await self._run(
            lambda: enqueue.enqueue_many(jobs, ids, self.rules, at_once=next(sizes)),
            atomic=len(jobs) > _PART or self._takes_several(jobs),
            org_id=org,
        )

    def _takes_several(self, jobs: Sequence[NewJob]) -> bool:
        """Whether storing these jobs may need more than one statement."""
        if len(jobs) > 1 and any(isinstance(job, NewJob) and job.key is not None for job in jobs):
            return True
        return any(enqueue.tied(job) or key_conflicts.changes_holder(job, self.rules) for job in jobs)

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

    async def list_jobs(
        self, where: JobFilter | None = None, *, limit: int = 50, cursor: JobId | None = None
    ) -> Page:
        """Read a page of jobs, newest first."""
        chosen = where or JobFilter()
        return await self._run(lambda: inspect.list_jobs(chosen, limit=limit, cursor=cursor), write=False)

    async def count(self, org_id: str | None = None) -> Counts:
        """Count live jobs by queue and state, and ended jobs up to a cap."""
        return await self._run(lambda: inspect.count(org_id), write=False)

    async def attempts(self, job_id: JobId | UUID) -> list[Attempt]:
        """Read all attempts of a job, oldest first, including the one that runs now."""
        asked = normalise_id(job_id)
        return await self._run(lambda: inspect.attempts_of(asked), write=False)

    async def events(self, job_id: JobId | UUID) -> list[Event]:
        """Read the audit events of a job, oldest first."""
        asked = normalise_id(job_id)
        return await self._run(lambda: inspect.events_of(asked), write=False)

    async def cancel(self, job_id: JobId | UUID, *, reason: str) -> JobState:
        """Cancel a waiting job at once, or ask a running one to give way; return its state now."""
        asked = normalise_id(job_id)
        stopped = await self._run(lambda: cancel.stop([asked], reason=reason))
        if asked not in stopped.states:
            raise JobNotFound(f"no job {asked}; it was never enqueued here, or has been removed")
        await self._settle_some(stopped.tied, slots=stopped.slots)
        return stopped.states[asked]

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
            lambda: subjects.drop_subject(subject, self.rules, rule=rule, org_id=org_id, reason=reason),
            atomic=True,
        )  # fmt: skip

    async def pause(self, scope: Scope, name: str, *, reason: str) -> bool:
        """Stop claims of a queue, an org or a job type; running jobs go on.

        Return False if it is paused for that reason already; another reason replaces the first one.
        """
        return await self._run(lambda: pauses.pause(scope, name, reason=reason))

    async def resume(self, scope: Scope, name: str, *, reason: str | None = None) -> bool:
        """End a pause; False if there was none."""
        return await self._run(lambda: pauses.resume(scope, name, reason=reason))

    async def close_gate(self, *, reason: str) -> bool:
        """Stop all claims; running jobs go on. Return False if it is closed for that reason already."""
        return await self._run(lambda: pauses.close_gate(reason=reason))

    async def open_gate(self, *, reason: str | None = None) -> bool:
        """Let workers claim again; False if the gate was open."""
        return await self._run(lambda: pauses.open_gate(reason=reason))

    async def controls(self) -> Controls:
        """Read the gate, the pauses, and the orgs that have spent their budget."""
        return await self._run(pauses.controls, write=False)
