"""The parts of a client, by noun; a client has them all."""

from __future__ import annotations

from onward.clients.binding import AsyncReach
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

__all__ = ["AsyncParts"]


class AsyncParts(AsyncReach):
    """What a client can do besides its own operations."""

    @property
    def alerts(self) -> AsyncAlerts:
        """Give the alerts: what somebody was told or will be, and what is muted."""
        return AsyncAlerts(self._run, self.rules)

    @property
    def artifacts(self) -> AsyncArtifacts:
        """Give the files that jobs take in and leave."""
        bound = self._bound is not None
        return AsyncArtifacts(self._run, self.store, self.rules, org_id=self.org_id, bound=bound)

    @property
    def audit(self) -> AsyncAudit:
        """Give the audit: to read, export, seal, verify and prune it."""
        return AsyncAudit(self._run, self.rules)

    @property
    def batches(self) -> AsyncBatches:
        """Give the batches: to make them, and to see how far they have come."""
        return AsyncBatches(self._run, self.rules, org_id=self.org_id, bound=self._bound is not None)

    @property
    def breakers(self) -> AsyncBreakers:
        """Give the circuit breakers: what is held because its provider pushes back."""
        return AsyncBreakers(self._run)

    @property
    def dead(self) -> AsyncDead:
        """Give the dead letters: to look at them, and to replay, discard or fix them."""
        return AsyncDead(self._run, self.rules)

    @property
    def doctor(self) -> AsyncDoctor:
        """Give the doctor, who tells why jobs do not run."""
        return AsyncDoctor(self._run, self.store, self.rules, org_id=self.org_id)

    @property
    def effects(self) -> AsyncEffects:
        """Give what handlers have done once and what they remember: to look at it, and to reset it."""
        return AsyncEffects(self._run, self.rules)

    @property
    def flows(self) -> AsyncFlows:
        """Give the flows: which jobs wait for which."""
        return AsyncFlows(self._run)

    @property
    def keys(self) -> AsyncKeys:
        """Give the ledger of idempotency keys."""
        return AsyncKeys(self._run)

    @property
    def limits(self) -> AsyncLimits:
        """Give the limits: how many jobs that share something run at once or start in a period."""
        return AsyncLimits(self._run, self.rules)

    @property
    def maintenance(self) -> AsyncMaintenance:
        """Give the maintenance: to remove what was kept for its time, and to see what the tables take up."""
        bound = self._bound is not None
        parts = (self._run, self.store, self.rules, self.audit, self.artifacts)
        return AsyncMaintenance(*parts, org_id=self.org_id, bound=bound)

    @property
    def queues(self) -> AsyncQueues:
        """Give the rules of queues: how many jobs at once, how fast, and in whose turn."""
        return AsyncQueues(self._run, self.rules)

    @property
    def schedules(self) -> AsyncSchedules:
        """Give the schedules: to add, pause, run and remove them, and to see what became of their runs."""
        return AsyncSchedules(self._run, self.rules)

    @property
    def signals(self) -> AsyncSignals:
        """Give the signals: to send them, and to see who waits for them."""
        return AsyncSignals(self._run, self.rules, org_id=self.org_id, bound=self._bound is not None)

    @property
    def usage(self) -> AsyncUsage:
        """Give what runs have used and cost, and the budgets of orgs."""
        return AsyncUsage(self._run)
