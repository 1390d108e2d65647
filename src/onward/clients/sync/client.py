# Generated from src/onward/clients/client.py by tools/make_sync.py. Edit that file instead.
"""The sync client: operations by noun, on Onward's own store or within the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from onward.clients.bound import UNBOUND, Bound
from onward.clients.sync.binding import Binding
from onward.clients.sync.failures.alerts import Alerts
from onward.clients.sync.failures.breakers import Breakers
from onward.clients.sync.failures.dead import Dead
from onward.clients.sync.flows.batches import Batches
from onward.clients.sync.flows.flows import Flows
from onward.clients.sync.flows.signals import Signals
from onward.clients.sync.jobs.enqueuing import Enqueuing
from onward.clients.sync.jobs.jobs import Jobs
from onward.clients.sync.jobs.keys import Keys
from onward.clients.sync.jobs.stats import Stats
from onward.clients.sync.limits.gate import Gate, JobTypes, Orgs
from onward.clients.sync.limits.limits import Limits
from onward.clients.sync.limits.queues import Queues
from onward.clients.sync.records.artifacts import Artifacts
from onward.clients.sync.records.audit import Audit
from onward.clients.sync.records.usage import Usage
from onward.clients.sync.schedules import Schedules
from onward.clients.sync.upkeep.doctor import Doctor
from onward.clients.sync.upkeep.maintenance import Maintenance
from onward.clients.sync.work.effects import Effects
from onward.clients.sync.work.worker_client import WorkerClient
from onward.clients.sync.work.workers import Workers
from onward.core.flows.flow import Flow
from onward.core.inputs.checks import zoned
from onward.core.jobs.actor import Actor, ActorLike
from onward.core.jobs.job import Enqueued, NewJob
from onward.core.jobs.scope import ALL
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.core.upkeep.maintenance import Plan
from onward.operations.tenancy import check_org, check_project
from onward.stores import Store, open_store


class Client:
    """A database, the settings of an application, and the operations on them, by noun."""

    def __init__(
        self,
        url: str | None = None,
        *,
        store: Store | None = None,
        policies: Policies = DEFAULT_POLICIES,
        bound: Bound = UNBOUND,
    ) -> None:
        self._binding = Binding(store or open_store(url), policies, bound)
        self._enqueuing = Enqueuing(self._binding)

    def enqueue(self, job: NewJob) -> Enqueued:
        """Store a job, or find the job that holds its key."""
        return self._enqueuing.enqueue(job)

    def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Enqueued]:
        """Store many jobs, all or none; return the answers in the order of `jobs`."""
        return self._enqueuing.enqueue_many(jobs)

    def enqueue_flow(self, flow: Flow | NewJob) -> list[Enqueued]:
        """Store the jobs of a flow, all or none; return the answers in the order of `flow.jobs`."""
        return self._enqueuing.enqueue_flow(flow)

    @property
    def store(self) -> Store:
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

    def __enter__(self) -> Self:
        """Return the client; leaving the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Close the store; a client confined to an org or project leaves it open for the other clients."""
        if self.bound.scope == ALL:
            self.store.close()

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

    def migrate(self) -> Plan:
        """Bring the schema up to this code; return the plan as it stood before."""
        self._binding.require_all_orgs("migrate")
        return self.store.migrate()

    def plan(self) -> Plan:
        """Compare the schema with this code; changes nothing."""
        self._binding.require_all_orgs("plan")
        return self.store.plan()

    def protect_orgs(self, *, enable: bool = True) -> None:
        """Make PostgreSQL itself keep the orgs apart, for every role but the owner of the tables."""
        self._binding.require_all_orgs("protect_orgs")
        self.store.protect_orgs(enable=enable)

    @property
    def alerts(self) -> Alerts:
        """The alerts: what operators were told or will be told, and which alerts are muted."""
        return Alerts(self._binding)

    @property
    def artifacts(self) -> Artifacts:
        """The files that jobs read and produce."""
        return Artifacts(self._binding)

    @property
    def audit(self) -> Audit:
        """The audit: read, export, seal, verify and prune it."""
        return Audit(self._binding)

    @property
    def batches(self) -> Batches:
        """The batches: make them, and follow their progress."""
        return Batches(self._binding)

    @property
    def breakers(self) -> Breakers:
        """The circuit breakers: which jobs are held because their provider pushes back."""
        return Breakers(self._binding)

    @property
    def dead(self) -> Dead:
        """The dead letters: look at them, and replay, discard or fix them."""
        return Dead(self._binding)

    @property
    def doctor(self) -> Doctor:
        """The diagnosis of why jobs do not run."""
        return Doctor(self._binding)

    @property
    def effects(self) -> Effects:
        """The effects and remembered steps of handlers: look at them, and reset them."""
        return Effects(self._binding)

    @property
    def flows(self) -> Flows:
        """The flows: which jobs wait for which."""
        return Flows(self._binding)

    @property
    def gate(self) -> Gate:
        """The gate: stop the claims of all workers, and see what holds claims back."""
        return Gate(self._binding)

    @property
    def job_types(self) -> JobTypes:
        """The job types: what each is for; pause, resume and skip their jobs."""
        return JobTypes(self._binding)

    @property
    def jobs(self) -> Jobs:
        """The jobs: find them, read what happened to them, and cancel them."""
        return Jobs(self._binding)

    @property
    def keys(self) -> Keys:
        """The ledger of idempotency keys."""
        return Keys(self._binding)

    @property
    def limits(self) -> Limits:
        """The limits: how many jobs that share something run at once or start in a period."""
        return Limits(self._binding)

    @property
    def maintenance(self) -> Maintenance:
        """The maintenance: remove rows past their retention, and report the sizes of tables."""
        return Maintenance(self._binding)

    @property
    def orgs(self) -> Orgs:
        """The orgs: pause and resume them."""
        return Orgs(self._binding)

    @property
    def queues(self) -> Queues:
        """The queues: how many jobs run at once, how fast they start, and which are paused."""
        return Queues(self._binding)

    @property
    def schedules(self) -> Schedules:
        """The schedules: add, pause, run and remove them, and read their runs."""
        return Schedules(self._binding)

    @property
    def signals(self) -> Signals:
        """The signals: send them, and see which jobs wait for them."""
        return Signals(self._binding)

    @property
    def stats(self) -> Stats:
        """The stats: figures about jobs, for monitors and dashboards."""
        return Stats(self._binding)

    @property
    def usage(self) -> Usage:
        """What attempts have used and cost, and the budgets of orgs."""
        return Usage(self._binding)

    @property
    def worker(self) -> WorkerClient:
        """What only workers do: hold a lease, claim jobs, and write their ends."""
        return WorkerClient(self._binding.for_worker())

    @property
    def workers(self) -> Workers:
        """The workers: which there are, and what each serves."""
        return Workers(self._binding)

    def _like(self, binding: Binding) -> Self:
        made = object.__new__(type(self))
        made._binding = binding
        made._enqueuing = self._enqueuing.bound_to(binding)
        return made
