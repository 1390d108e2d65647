# Generated from src/onward/clients/nouns.py by tools/make_sync.py. Edit that file instead.
"""The parts of a client, by noun; a client has them all."""

from __future__ import annotations

from onward.clients.sync.binding import Reach
from onward.clients.sync.failures.alerts import Alerts
from onward.clients.sync.failures.breakers import Breakers
from onward.clients.sync.failures.dead import Dead
from onward.clients.sync.flows.batches import Batches
from onward.clients.sync.flows.flows import Flows
from onward.clients.sync.flows.signals import Signals
from onward.clients.sync.jobs.keys import Keys
from onward.clients.sync.limits.limits import Limits
from onward.clients.sync.limits.queues import Queues
from onward.clients.sync.records.artifacts import Artifacts
from onward.clients.sync.records.audit import Audit
from onward.clients.sync.records.usage import Usage
from onward.clients.sync.schedules import Schedules
from onward.clients.sync.upkeep.doctor import Doctor
from onward.clients.sync.upkeep.maintenance import Maintenance
from onward.clients.sync.work.effects import Effects

__all__ = ["Parts"]


class Parts(Reach):
    """What a client can do besides its own operations."""

    @property
    def alerts(self) -> Alerts:
        """Give the alerts: what somebody was told or will be, and what is muted."""
        return Alerts(self._run, self.rules)

    @property
    def artifacts(self) -> Artifacts:
        """Give the files that jobs take in and leave."""
        bound = self._bound is not None
        return Artifacts(self._run, self.store, self.rules, org_id=self.org_id, bound=bound)

    @property
    def audit(self) -> Audit:
        """Give the audit: to read, export, seal, verify and prune it."""
        return Audit(self._run, self.rules)

    @property
    def batches(self) -> Batches:
        """Give the batches: to make them, and to see how far they have come."""
        return Batches(self._run, self.rules, org_id=self.org_id, bound=self._bound is not None)

    @property
    def breakers(self) -> Breakers:
        """Give the circuit breakers: what is held because its provider pushes back."""
        return Breakers(self._run)

    @property
    def dead(self) -> Dead:
        """Give the dead letters: to look at them, and to replay, discard or fix them."""
        return Dead(self._run, self.rules)

    @property
    def doctor(self) -> Doctor:
        """Give the doctor, who tells why jobs do not run."""
        return Doctor(self._run, self.store, self.rules, org_id=self.org_id)

    @property
    def effects(self) -> Effects:
        """Give what handlers have done once and what they remember: to look at it, and to reset it."""
        return Effects(self._run, self.rules)

    @property
    def flows(self) -> Flows:
        """Give the flows: which jobs wait for which."""
        return Flows(self._run)

    @property
    def keys(self) -> Keys:
        """Give the ledger of idempotency keys."""
        return Keys(self._run)

    @property
    def limits(self) -> Limits:
        """Give the limits: how many jobs that share something run at once or start in a period."""
        return Limits(self._run, self.rules)

    @property
    def maintenance(self) -> Maintenance:
        """Give the maintenance: to remove what was kept for its time, and to see what the tables take up."""
        bound = self._bound is not None
        parts = (self._run, self.store, self.rules, self.audit, self.artifacts)
        return Maintenance(*parts, org_id=self.org_id, bound=bound)

    @property
    def queues(self) -> Queues:
        """Give the rules of queues: how many jobs at once, how fast, and in whose turn."""
        return Queues(self._run, self.rules)

    @property
    def schedules(self) -> Schedules:
        """Give the schedules: to add, pause, run and remove them, and to see what became of their runs."""
        return Schedules(self._run, self.rules)

    @property
    def signals(self) -> Signals:
        """Give the signals: to send them, and to see who waits for them."""
        return Signals(self._run, self.rules, org_id=self.org_id, bound=self._bound is not None)

    @property
    def usage(self) -> Usage:
        """Give what runs have used and cost, and the budgets of orgs."""
        return Usage(self._run)
