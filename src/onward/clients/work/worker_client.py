"""What a worker needs of a client: leases, claims, ends, and the work that is due by the clock."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from msgspec.structs import astuple

from onward.clients.binding import AsyncBinding
from onward.clients.work.worker_alerts import AsyncWorkerAlerts
from onward.clients.work.worker_artifacts import AsyncWorkerArtifacts
from onward.clients.work.worker_effects import AsyncWorkerEffects, AsyncWorkerSignals
from onward.clients.work.worker_limits import AsyncWorkerBreakers, AsyncWorkerLimits
from onward.clients.work.worker_maintenance import AsyncWorkerMaintenance
from onward.clients.work.worker_schedules import AsyncWorkerSchedules
from onward.core.bulk import Changed
from onward.core.inputs.checks import check_kind
from onward.core.inputs.duration import Duration, duration
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.jobs.ids import AnyJobId, JobId, normalise_id
from onward.core.jobs.job import Job
from onward.core.jobs.scope import ALL
from onward.core.limits.pause import Controls
from onward.core.policy.application import DeclaredTypes
from onward.core.upkeep.facts import WorkerSeen
from onward.core.work.claim import ClaimSize, Due, Instructions, PolicyClaim, QueuePosition, ReadyQueues
from onward.core.work.job_end import JobEnd, ParkedForm, ReleasedForm
from onward.core.work.lease import JobLease, Leases, Promoted, Swept, check_lease
from onward.core.work.lifecycle import End
from onward.core.work.progress import JobReport, Report
from onward.errors import LeaseLost
from onward.operations.flows import after_end, graph
from onward.operations.limits import pauses, queues
from onward.operations.records import audit
from onward.operations.schedules.fire import Known
from onward.operations.statement import Row
from onward.operations.tenancy import not_allowed
from onward.operations.work import leader, policy_claim, polls, progress, rescue
from onward.operations.work.claim import claim_rows, read_claimed
from onward.operations.work.finish import finish, finish_reported
from onward.operations.work.leases import extend, register, retire
from onward.operations.work.workers import check_declared, type_unknown_for

L = TypeVar("L", bound=JobLease)

LEASE = timedelta(seconds=30)


class AsyncWorkerClient:
    """Holds a worker's lease, claims jobs, and writes their outcomes."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._run = binding.run
        self._policies = binding.policies

    @property
    def alerts(self) -> AsyncWorkerAlerts:
        """What workers do for alerts."""
        return AsyncWorkerAlerts(self._binding)

    @property
    def artifacts(self) -> AsyncWorkerArtifacts:
        """The files of running jobs."""
        return AsyncWorkerArtifacts(self._binding)

    @property
    def breakers(self) -> AsyncWorkerBreakers:
        """What workers ask and tell the breakers."""
        return AsyncWorkerBreakers(self._binding)

    @property
    def effects(self) -> AsyncWorkerEffects:
        """The effects and steps of running jobs."""
        return AsyncWorkerEffects(self._binding)

    @property
    def limits(self) -> AsyncWorkerLimits:
        """What workers do for limits."""
        return AsyncWorkerLimits(self._binding)

    @property
    def maintenance(self) -> AsyncWorkerMaintenance:
        """What the built-in jobs do for maintenance."""
        return AsyncWorkerMaintenance(self._binding)

    @property
    def schedules(self) -> AsyncWorkerSchedules:
        """What workers do for schedules."""
        return AsyncWorkerSchedules(self._binding)

    @property
    def signals(self) -> AsyncWorkerSignals:
        """The signals for running jobs."""
        return AsyncWorkerSignals(self._binding)

    async def ready_queues(self) -> ReadyQueues:
        """Return which queues have a ready job, and when the next job is due."""
        return await self._run(polls.ready_queues, write=False)

    async def due(self, known: Known) -> Due:
        """Return what is due by the clock for a worker that knows these schedules."""
        return await self._run(lambda: polls.due(known), write=False)

    async def instructions(self, worker_id: str) -> Instructions:
        """Return whether a worker's lease holds, which of its jobs to cancel, and what is paused."""
        return await self._run(lambda: polls.instructions(worker_id), write=False)

    async def register(
        self, worker_id: str, *, lease: Duration = LEASE, info: Mapping[str, Any] | None = None
    ) -> None:
        """Start the lease of a worker; a worker id serves one lifetime of one process.

        The worker of a client of one org or project belongs to that one: clients of others can't use it.
        Raises InvalidSetting for an id that was used before.
        """
        length = duration("lease", lease)
        await self._run(lambda: register(worker_id, lease=length, info=info))

    async def check_declared(self, worker_id: str, declared: DeclaredTypes) -> list[WorkerSeen]:
        """Raise InvalidSetting if a live worker of another application declares a job type otherwise.

        Return a worker of each application that declares one of the job types in the same way.
        """
        return await self._run(lambda: check_declared(worker_id, declared), write=False)

    async def extend(
        self, worker_id: str, jobs: Collection[JobLease], *, lease: Duration = LEASE, idle: bool = False
    ) -> Leases:
        """Renew a worker's lease, and return which of these jobs it still holds; raises WorkerLost."""
        held, length = (
            _checked("jobs", jobs, JobLease, "give the held_lease of each job"),
            duration("lease", lease),
        )
        return await self._run(lambda: extend(worker_id, held, lease=length, idle=idle))

    async def retire(self, worker_id: str) -> Changed:
        """End a worker's lease at once, so that the jobs it still holds can be rescued."""
        return await self._run(lambda: retire(worker_id))

    async def held(self, worker_id: str) -> list[Job]:
        """Return the running jobs of a worker."""
        return await self._run(lambda: rescue.find_held(worker_id), write=False)

    async def claim(
        self,
        queue: str,
        limit: ClaimSize = 1,
        *,
        worker_id: str,
        paused_orgs: Collection[str] | None = None,
        paused_types: Collection[str] | None = None,
        job_types: Collection[str] | None = None,
        past: QueuePosition | None = None,
    ) -> list[Job]:
        """Claim at most `limit` ready jobs of a queue under the worker's lease, most urgent first.

        A queue that has a policy is claimed by it. Nothing is claimed while the gate is closed or the queue
        is paused; jobs of paused orgs and types are passed over. A caller that keeps watch on these itself,
        as workers do, gives both `paused_orgs` and `paused_types`: nothing is read. Only jobs of `job_types`
        are claimed, if given. `past` is the position of the last job that the caller claimed: PostgreSQL then
        claims only jobs behind it, and does not read the index entries of jobs claimed before.

        A client of one org claims only jobs of that org, always reads the pauses, and gets NotAllowed for a
        queue with a policy. Raises WorkerLost, InvalidJob for a bad queue, InvalidSetting for a bad limit.
        """
        confined = self._binding.scope != ALL
        by_policy = isinstance(queue, str) and queue in self._policies.registry.queues
        if confined or paused_orgs is None or paused_types is None:
            controls, by_policy = await self._read_controls(queue)
            if controls.gate is not None or queue in controls.paused("queue"):
                return []
            paused_orgs = controls.held_orgs.union(paused_orgs or ())
            paused_types = controls.paused("job_type").union(paused_types or ())
        may = {"paused_orgs": paused_orgs or (), "paused_types": paused_types or ()}
        if by_policy:
            claim = await self.claim_by_policy(queue, limit, worker_id=worker_id, **may, job_types=job_types)
            return claim.jobs
        rows = await self._run(
            lambda: claim_rows(
                queue, limit, worker_id=worker_id, **may, job_types=job_types, past=past, confined=confined
            )
        )
        return await self._read_claimed(rows, worker_id)

    async def _read_claimed(self, rows: Sequence[Row], worker_id: str) -> list[Job]:
        """Return the jobs of a claim, and end those that can't be read."""
        jobs, unreadable = read_claimed(rows, worker_id)
        if unreadable:
            await self._run(lambda: finish(unreadable))
        return jobs

    async def _read_controls(self, queue: str) -> tuple[Controls, bool]:
        """Return what is paused, and whether the queue has a policy; a confined client may not have one."""
        check_text("queue", queue, longest=LONGEST["queue"])
        controls, stored = await self._run(pauses.claim_controls, write=False)
        by_policy = queue in stored or queue in self._policies.registry.queues
        if by_policy and (scope := self._binding.scope) != ALL:
            raise not_allowed(f"queue {queue!r:.80} has a policy, which counts the jobs of all orgs", scope)
        return controls, by_policy

    async def claim_by_policy(
        self,
        queue: str,
        limit: ClaimSize = 1,
        *,
        worker_id: str,
        paused_orgs: Collection[str] = (),
        paused_types: Collection[str] = (),
        job_types: Collection[str] | None = None,
    ) -> PolicyClaim:
        """Claim, as a worker does, from a queue that has a policy; also return what bounded the claim.

        Raises WorkerLost, InvalidJob for an invalid queue, InvalidSetting for an invalid limit, and
        NotAllowed for a client of one org: a policy counts the jobs of all orgs.
        """
        self._binding.require_all_orgs("worker.claim_by_policy")
        paused = {"paused_orgs": paused_orgs, "paused_types": paused_types}
        declared = self._policies.registry.queues.get(queue)
        return await self._run(
            lambda: policy_claim.claim_by_policy(
                queue, limit, worker_id=worker_id, declared=declared, **paused, job_types=job_types
            ),
            atomic=True,
        )

    async def declare_queues(self) -> None:
        """Write, as a worker does at its start, the policies that the application declares."""
        await self._run(lambda: queues.declare(self._policies.registry.queues))

    async def finish(self, ends: Sequence[JobEnd]) -> Leases:
        """Settle claimed jobs by their outcomes and write their ends; return which leases still held.

        `job.end_with(outcome)` makes an end. A job that this client can't see counts as lost. Raises
        InvalidJob for what is no job id, and InvalidSetting for an invalid outcome.
        """
        _checked("ends", ends, JobEnd, "give the ends of claimed jobs: [job.end_with(Succeeded())]")
        parks = any(isinstance(end.outcome, ParkedForm) for end in ends)
        leases = await self._run(lambda: finish_reported(ends, self._policies, random.random), atomic=parks)
        return await self._follow_up(leases)

    async def write(
        self,
        ends: Sequence[End],
        *,
        org_id: str | None = None,
        keep_permits: bool = False,
        apart: bool = False,
    ) -> Leases:
        """Write ends that are already settled; return which leases still held.

        `org_id` is the org of the jobs, for databases with row security. With `keep_permits` the caller
        itself passes on the permits that the ends free. Ends written `apart` get their own transaction: if it
        waits for a lock, no other write waits with it. Raises NotAllowed for a client of one org.
        """
        self._binding.require_all_orgs("worker.write")
        atomic = apart or any(end.usage or end.progress or end.transition.wait for end in ends)
        leases = await self._run(lambda: finish(ends), atomic=atomic, org_id=org_id)
        await self._binding.follow_up(leases.tied, () if keep_permits else leases.permits)
        return leases

    async def release(self, jobs: Collection[JobLease], *, delay: Duration | None = None) -> Leases:
        """Return claimed jobs unfinished to their queues, at once or after a delay; uses no attempt.

        Raises InvalidJob for what is no job id.
        """
        held = _checked("jobs", jobs, JobLease, "give the held_lease of each job")
        seconds = None if delay is None else duration("delay", delay).total_seconds()
        released = ReleasedForm(seconds)
        return await self.finish([JobEnd(one.job_id, one.lease, one.attempt, released) for one in held])

    async def rescue(self, limit: ClaimSize = 500) -> Leases:
        """Take back the jobs of workers whose lease ran out; raises InvalidSetting for an invalid limit."""
        leases = await self._run(lambda: rescue.rescue(limit, policies=self._policies, dice=random.random))
        return await self._follow_up(leases)

    async def rescue_worker(self, worker_id: str, *, how: str | None = None) -> Leases:
        """Take back all jobs of a worker that is known to be dead; `how` describes its death.

        Raises NotAllowed for a client of one org.
        """
        self._binding.require_all_orgs("worker.rescue_worker")
        leases = await self._run(
            lambda: rescue.rescue_worker(worker_id, how=how, policies=self._policies, dice=random.random),
            # Otherwise the sweep of another worker could take the jobs in between, without knowing how this
            # one died.
            atomic=True,
        )
        return await self._follow_up(leases)

    async def sweep(self, worker_id: str, *, ttl: Duration = LEASE, limit: ClaimSize = 500) -> Swept:
        """Take back the jobs of workers whose lease ran out, if this worker leads the sweep.

        Raises InvalidSetting for an invalid limit or duration.
        """
        term = duration("ttl", ttl)
        swept = await self._run(
            lambda: rescue.sweep(
                worker_id, ttl=term, limit=limit, policies=self._policies, dice=random.random
            )
        )
        await self._follow_up(swept.leases)
        return swept

    async def follow_up(self, *, patience: Duration = timedelta()) -> int:
        """Do the follow-up work of ended jobs that is pending; return how many had some.

        With no `patience`, jobs that another process is working on are counted too, so 0 means that all
        follow-up work is done. With `patience`, a job is left to other processes for that time after its end,
        and not counted. Raises InvalidSetting for an invalid duration.
        """
        wait = duration("patience", patience)
        return await self._binding.walk(after_end.follow_up_all(self._policies, patience=wait))

    async def _follow_up(self, leases: Leases) -> Leases:
        await self._binding.follow_up(leases.tied, leases.permits)
        return leases

    async def note(self, job: JobLease, action: str, detail: Mapping[str, Any] | None = None) -> int:
        """Add a record about a job that this worker runs, and return its number; raises LeaseLost."""
        _checked("job", [job], JobLease, "give the held_lease of a claimed job")
        kept = self._policies.settings.redact.redact(dict(detail or {}))
        shown = self._policies.settings.redact.redact(action)
        seq = await self._run(lambda: audit.note(job, shown, kept))
        if seq is None:
            raise LeaseLost(
                f"job {job.job_id}: lease {job.lease} is not the newest; {shown!r} was not recorded"
            )
        return seq

    async def store_progress(self, reports: Collection[JobReport]) -> frozenset[JobId]:
        """Store the newest reports of running jobs; a report under a stale lease is dropped.

        Return the jobs whose row another transaction holds: nothing was stored of them. Raises InvalidJob for
        what is no job id, and InvalidSetting for a report that can't be stored.
        """
        _checked(
            "reports", reports, JobReport, "give the reports of claimed jobs: [JobReport.of(job, report)]"
        )
        rows = [(one.job_id, one.lease, Report.checked(*astuple(one.report))) for one in reports]
        return await self._run(lambda: progress.store(rows)) if rows else frozenset()

    async def parents(self, job_id: AnyJobId) -> list[Job]:
        """Return all jobs that a running job has waited for, with their results, oldest first."""
        wanted = normalise_id(job_id)
        return await self._run(lambda: graph.all_parents(wanted), write=False)

    async def lead(self, name: str, worker_id: str, *, ttl: Duration = LEASE) -> bool:
        """Become or stay the leader for `name`; False while another worker leads.

        Raises InvalidSetting for an invalid duration.
        """
        term = duration("ttl", ttl)
        return await self._run(lambda: leader.lead(name, worker_id, ttl=term))

    async def abdicate(self, worker_id: str) -> frozenset[str]:
        """End every leadership of a worker; return the names that it led."""
        return await self._run(lambda: leader.abdicate(worker_id))

    async def type_unknown_for(
        self, job_type: str, *, org_id: str | None = None, project_id: str | None = None
    ) -> timedelta | None:
        """Return how long ago a live worker last knew a job type, zero if one lives; None if none did.

        A worker of one org or project is asked only if the job is of that one.
        """
        of_job = {"org_id": org_id, "project_id": project_id}
        return await self._run(lambda: type_unknown_for(job_type, **of_job), write=False)

    async def promote(self, limit: ClaimSize = 500) -> Promoted:
        """Make due jobs ready if they need no permit or one is free; return when the next job is due.

        Raises InvalidSetting for an invalid limit.
        """
        promoted = await self._run(lambda: rescue.promote(limit))
        await self._binding.follow_up((), promoted.permits)
        return promoted


def _checked(name: str, leases: Collection[L], kind: type[L], advice: str) -> Collection[L]:
    check_kind(name, leases, Collection, advice)
    for lease in leases:
        check_kind(f"one of {name}", lease, kind, advice)
        normalise_id(lease.job_id)
        check_lease(lease.lease, lease.attempt)
    return leases
