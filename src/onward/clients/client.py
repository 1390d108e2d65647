"""The async client: operations by noun, on Onward's own store or within the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from onward.clients.binding import AsyncBinding
from onward.clients.bound import UNBOUND, Bound
from onward.clients.failures.alerts import AsyncAlerts
from onward.clients.failures.breakers import AsyncBreakers
from onward.clients.failures.dead import AsyncDead
from onward.clients.flows.batches import AsyncBatches
from onward.clients.flows.flows import AsyncFlows
from onward.clients.flows.signals import AsyncSignals
from onward.clients.jobs.enqueuing import AsyncEnqueuing
from onward.clients.jobs.jobs import AsyncJobs
from onward.clients.jobs.keys import AsyncKeys
from onward.clients.jobs.stats import AsyncStats
from onward.clients.limits.gate import AsyncGate, AsyncJobTypes, AsyncOrgs
from onward.clients.limits.limits import AsyncLimits
from onward.clients.limits.queues import AsyncQueues
from onward.clients.records.artifacts import AsyncArtifacts
from onward.clients.records.audit import AsyncAudit
from onward.clients.records.usage import AsyncUsage
from onward.clients.schedules import AsyncSchedules
from onward.clients.upkeep.doctor import AsyncDoctor
from onward.clients.upkeep.maintenance import AsyncMaintenance
from onward.clients.work.effects import AsyncEffects
from onward.clients.work.worker_client import AsyncWorkerClient
from onward.clients.work.workers import AsyncWorkers
from onward.core.flows.flow import Flow
from onward.core.inputs.checks import zoned
from onward.core.jobs.actor import Actor, ActorLike
from onward.core.jobs.job import Enqueued, NewJob
from onward.core.jobs.scope import ALL
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.core.upkeep.maintenance import Plan
from onward.operations.tenancy import check_org, check_project
from onward.stores import AsyncStore, open_async_store


class AsyncClient:
    """A database, the settings of an application, and the operations on them, by noun."""

    def __init__(
        self,
        url: str | None = None,
        *,
        store: AsyncStore | None = None,
        policies: Policies = DEFAULT_POLICIES,
        bound: Bound = UNBOUND,
    ) -> None:
        self._binding = AsyncBinding(store or open_async_store(url), policies, bound)
        self._enqueuing = AsyncEnqueuing(self._binding)

    async def enqueue(self, job: NewJob) -> Enqueued:
        """Store a job, or find the job that holds its key."""
        return await self._enqueuing.enqueue(job)

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Enqueued]:
        """Store many jobs, all or none; return the answers in the order of `jobs`."""
        return await self._enqueuing.enqueue_many(jobs)

    async def enqueue_flow(self, flow: Flow | NewJob) -> list[Enqueued]:
        """Store the jobs of a flow, all or none; return the answers in the order of `flow.jobs`."""
        return await self._enqueuing.enqueue_flow(flow)

    @property
    def store(self) -> AsyncStore:
        """The database that this client works on."""
        return self._binding.store

    @property
    def policies(self) -> Policies:
        """The settings of the application that this client belongs to."""
        return self._binding.policies

    @property
    def org_id(self) -> str | None:
        """The org to which a call made here is confined, by the client or the code around; None for none."""
        return self._binding.org_id

    @property
    def bound(self) -> Bound:
        """What holds for every call of this client: org, project, actor and time."""
        return self._binding.bound

    async def __aenter__(self) -> Self:
        """Return the client; leaving the block closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        await self.close()

    async def close(self) -> None:
        """Close the store; a client confined to an org or project leaves it open for the other clients."""
        if self.bound.scope == ALL:
            await self.store.close()

    def within(self, tx: object) -> Self:
        """Return this client bound to the caller's open transaction.

        The client never commits, rolls back or swallows an error: the caller's transaction decides.
        """
        return self._like(self._binding.within(tx))

    def for_org(self, org_id: str) -> Self:
        """Return this client confined to one org: jobs of other orgs, or of none, do not exist for it."""
        check_org(org_id, self.bound.org_id, self.policies)
        return self._like(self._binding.having(org_id=org_id))

    def for_project(self, project_id: str) -> Self:
        """Return this client confined to one project: other jobs do not exist for it."""
        check_project(project_id, self.bound.project_id)
        return self._like(self._binding.having(project_id=project_id))

    def acting_as(self, actor: ActorLike) -> Self:
        """Return this client acting for `actor`, such as "user:42": the audit names it for every act."""
        return self._like(self._binding.having(actor=Actor.of(actor)))

    def at(self, instant: datetime | None) -> Self:
        """Return this client at a fixed time, for tests; None restores the database's clock."""
        return self._like(
            self._binding.having(instant=None if instant is None else zoned("instant", instant))
        )

    async def migrate(self) -> Plan:
        """Bring the schema up to this code; return the plan as it stood before."""
        self._binding.require_all_orgs("migrate")
        return await self.store.migrate()

    async def plan(self) -> Plan:
        """Compare the schema with this code; changes nothing."""
        self._binding.require_all_orgs("plan")
        return await self.store.plan()

    async def protect_orgs(self, *, enable: bool = True) -> None:
        """Make PostgreSQL itself keep the orgs apart, for every role but the owner of the tables."""
        self._binding.require_all_orgs("protect_orgs")
        await self.store.protect_orgs(enable=enable)

    @property
    def alerts(self) -> AsyncAlerts:
        """The alerts: what operators were told or will be told, and which alerts are muted."""
        return AsyncAlerts(self._binding)

    @property
    def artifacts(self) -> AsyncArtifacts:
        """The files that jobs read and produce."""
        return AsyncArtifacts(self._binding)

    @property
    def audit(self) -> AsyncAudit:
        """The audit: read, export, seal, verify and prune it."""
        return AsyncAudit(self._binding)

    @property
    def batches(self) -> AsyncBatches:
        """The batches: make them, and follow their progress."""
        return AsyncBatches(self._binding)

    @property
    def breakers(self) -> AsyncBreakers:
        """The circuit breakers: which jobs are held because their provider pushes back."""
        return AsyncBreakers(self._binding)

    @property
    def dead(self) -> AsyncDead:
        """The dead letters: look at them, and replay, discard or fix them."""
        return AsyncDead(self._binding)

    @property
    def doctor(self) -> AsyncDoctor:
        """The diagnosis of why jobs do not run."""
        return AsyncDoctor(self._binding)

    @property
    def effects(self) -> AsyncEffects:
        """The effects and remembered steps of handlers: look at them, and reset them."""
        return AsyncEffects(self._binding)

    @property
    def flows(self) -> AsyncFlows:
        """The flows: which jobs wait for which."""
        return AsyncFlows(self._binding)

    @property
    def gate(self) -> AsyncGate:
        """The gate: stop the claims of all workers, and see what holds claims back."""
        return AsyncGate(self._binding)

    @property
    def job_types(self) -> AsyncJobTypes:
        """The job types: what each is for; pause, resume and skip their jobs."""
        return AsyncJobTypes(self._binding)

    @property
    def jobs(self) -> AsyncJobs:
        """The jobs: find them, read what happened to them, and cancel them."""
        return AsyncJobs(self._binding)

    @property
    def keys(self) -> AsyncKeys:
        """The ledger of idempotency keys."""
        return AsyncKeys(self._binding)

    @property
    def limits(self) -> AsyncLimits:
        """The limits: how many jobs that share something run at once or start in a period."""
        return AsyncLimits(self._binding)

    @property
    def maintenance(self) -> AsyncMaintenance:
        """The maintenance: remove rows past their retention, and report the sizes of tables."""
        return AsyncMaintenance(self._binding)

    @property
    def orgs(self) -> AsyncOrgs:
        """The orgs: pause and resume them."""
        return AsyncOrgs(self._binding)

    @property
    def queues(self) -> AsyncQueues:
        """The queues: how many jobs run at once, how fast they start, and which are paused."""
        return AsyncQueues(self._binding)

    @property
    def schedules(self) -> AsyncSchedules:
        """The schedules: add, pause, run and remove them, and read their runs."""
        return AsyncSchedules(self._binding)

    @property
    def signals(self) -> AsyncSignals:
        """The signals: send them, and see which jobs wait for them."""
        return AsyncSignals(self._binding)

    @property
    def stats(self) -> AsyncStats:
        """The stats: figures about jobs, for monitors and dashboards."""
        return AsyncStats(self._binding)

    @property
    def usage(self) -> AsyncUsage:
        """What attempts have used and cost, and the budgets of orgs."""
        return AsyncUsage(self._binding)

    @property
    def worker(self) -> AsyncWorkerClient:
        """What only workers do: hold a lease, claim jobs, and write their ends."""
        return AsyncWorkerClient(self._binding.for_worker())

    @property
    def workers(self) -> AsyncWorkers:
        """The workers: which there are, and what each serves."""
        return AsyncWorkers(self._binding)

    def _like(self, binding: AsyncBinding) -> Self:
        made = object.__new__(type(self))
        made._binding = binding
        made._enqueuing = self._enqueuing.bound_to(binding)
        return made
