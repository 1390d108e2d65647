"""What every client has: a binding, and the nouns that share it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Self, TypeVar

from onward.clients.binding import AsyncBinding, Bound
from onward.clients.failures.alerts import AsyncAlerts
from onward.clients.failures.breakers import AsyncBreakers
from onward.clients.failures.dead import AsyncDead
from onward.clients.flows.batches import AsyncBatches
from onward.clients.flows.flows import AsyncFlows
from onward.clients.flows.signals import AsyncSignals
from onward.clients.jobs.keys import AsyncKeys
from onward.clients.limits.limits import AsyncLimits
from onward.clients.limits.queues import AsyncQueues
from onward.clients.records.artifacts import AsyncArtifacts
from onward.clients.records.audit import AsyncAudit
from onward.clients.records.usage import AsyncUsage
from onward.clients.schedules import AsyncSchedules
from onward.clients.upkeep.doctor import AsyncDoctor
from onward.clients.upkeep.maintenance import AsyncMaintenance
from onward.clients.work.effects import AsyncEffects
from onward.core.inputs.checks import zoned
from onward.core.jobs.actor import Actor, ActorLike
from onward.core.policy.rules import DEFAULT_RULES, Rules
from onward.operations.statement import Operation
from onward.operations.tenancy import check_org, check_project
from onward.stores import AsyncStore, open_async_store
from onward.stores.migrations import Plan

T = TypeVar("T")


class AsyncNouns:
    """A database, the rules of an application, and what can be done there, by noun."""

    def __init__(
        self, url: str | None = None, *, store: AsyncStore | None = None, rules: Rules = DEFAULT_RULES
    ) -> None:
        self._binding = AsyncBinding(store or open_async_store(url), rules)

    @property
    def store(self) -> AsyncStore:
        """The database that this client works on."""
        return self._binding.store

    @property
    def rules(self) -> Rules:
        """The rules of the application that this client belongs to."""
        return self._binding.rules

    @property
    def org_id(self) -> str | None:
        """The org to which this client is confined; None for all of them."""
        return self._binding.org_id

    @property
    def bound(self) -> Bound:
        """What holds for every call of this client: org, project, actor and time."""
        return self._binding.bound

    async def __aenter__(self) -> Self:
        """Use the client as a context, which closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        await self.close()

    async def close(self) -> None:
        """Let go of the database; a client that is confined to an org leaves it open for the others."""
        if self.org_id is None:
            await self.store.close()

    def within(self, tx: object) -> Self:
        """Return this client bound to the caller's open transaction.

        Nothing is committed, rolled back or swallowed here: what the caller's transaction does decides.
        """
        return self._like(self._binding.within(tx))

    def for_org(self, org_id: str) -> Self:
        """Return this client confined to one org: jobs of other orgs, or of none, do not exist for it."""
        check_org(org_id, self.org_id, self.rules)
        return self._like(self._binding.having(org_id=org_id))

    def for_project(self, project_id: str) -> Self:
        """Return this client bound to one project: what it enqueues belongs to that project."""
        check_project(project_id, self.bound.project_id)
        return self._like(self._binding.having(project_id=project_id))

    def acting_as(self, actor: ActorLike) -> Self:
        """Return this client acting for `actor`, such as "user:42": the audit names it for every act."""
        return self._like(self._binding.having(actor=Actor.of(actor)))

    def at(self, instant: datetime | None) -> Self:
        """Return this client at another time than the database's, for tests; None is the database's clock."""
        return self._like(
            self._binding.having(instant=None if instant is None else zoned("instant", instant))
        )

    async def migrate(self) -> Plan:
        """Bring the schema up to this code; return what was to do before."""
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
        """Give the alerts: what somebody was told or will be, and what is muted."""
        return AsyncAlerts(self._binding)

    @property
    def artifacts(self) -> AsyncArtifacts:
        """Give the files that jobs take in and leave."""
        return AsyncArtifacts(self._binding)

    @property
    def audit(self) -> AsyncAudit:
        """Give the audit: to read, export, seal, verify and prune it."""
        return AsyncAudit(self._binding)

    @property
    def batches(self) -> AsyncBatches:
        """Give the batches: to make them, and to see how far they have come."""
        return AsyncBatches(self._binding)

    @property
    def breakers(self) -> AsyncBreakers:
        """Give the circuit breakers: what is held because its provider pushes back."""
        return AsyncBreakers(self._binding)

    @property
    def dead(self) -> AsyncDead:
        """Give the dead letters: to look at them, and to replay, discard or fix them."""
        return AsyncDead(self._binding)

    @property
    def doctor(self) -> AsyncDoctor:
        """Give the doctor, who tells why jobs do not run."""
        return AsyncDoctor(self._binding)

    @property
    def effects(self) -> AsyncEffects:
        """Give what handlers have done once and what they remember: to look at it, and to reset it."""
        return AsyncEffects(self._binding)

    @property
    def flows(self) -> AsyncFlows:
        """Give the flows: which jobs wait for which."""
        return AsyncFlows(self._binding)

    @property
    def keys(self) -> AsyncKeys:
        """Give the ledger of idempotency keys."""
        return AsyncKeys(self._binding)

    @property
    def limits(self) -> AsyncLimits:
        """Give the limits: how many jobs that share something run at once or start in a period."""
        return AsyncLimits(self._binding)

    @property
    def maintenance(self) -> AsyncMaintenance:
        """Give the maintenance: to remove what was kept for its time, and to see what the tables take up."""
        return AsyncMaintenance(self._binding, self.audit, self.artifacts)

    @property
    def queues(self) -> AsyncQueues:
        """Give the rules of queues: how many jobs at once, how fast, and in whose turn."""
        return AsyncQueues(self._binding)

    @property
    def schedules(self) -> AsyncSchedules:
        """Give the schedules: to add, pause, run and remove them, and to see what became of their runs."""
        return AsyncSchedules(self._binding)

    @property
    def signals(self) -> AsyncSignals:
        """Give the signals: to send them, and to see who waits for them."""
        return AsyncSignals(self._binding)

    @property
    def usage(self) -> AsyncUsage:
        """Give what runs have used and cost, and the budgets of orgs."""
        return AsyncUsage(self._binding)

    def _like(self, binding: AsyncBinding) -> Self:
        made = type(self)(store=self.store, rules=self.rules)
        made._binding = binding  # noqa: SLF001 - one of its own kind
        return made

    async def _run(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
    ) -> T:
        return await self._binding.run(make, write=write, atomic=atomic, org_id=org_id)
