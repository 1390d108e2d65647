# Generated from src/onward/clients/work/worker_limits.py by tools/make_sync.py. Edit that file instead.
"""What workers do for limits and breakers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from onward.clients.sync.binding import Binding
from onward.core.failures.breaker import DEFAULT_SETTINGS, Answer, BreakerSettings, Standing
from onward.core.limits.limit import Limit
from onward.core.limits.limit_use import Admitted, FoundKeys
from onward.operations.failures import breakers
from onward.operations.limits import limits


class WorkerLimits:
    """Declares the limits of an application, and hands out their permits."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    def declare(self, declared: Mapping[str, Limit] | None = None) -> None:
        """Store, as a worker does at its start, these limits or those of the application."""
        known = self._policies.registry.limits if declared is None else declared
        if known:
            self._run(lambda: limits.declare(known))

    def find(self, after: str = "", *, keys: Collection[str] | None = None, limit: int = 200) -> FoundKeys:
        """Find, as a worker does, the keys that have waiting jobs and free permits."""
        return self._run(lambda: limits.find_admissible(after, keys=keys, limit=limit), write=False)

    def admit(self, keys: Collection[str]) -> Admitted:
        """Make as many waiting jobs of these keys ready as their limits have permits for."""
        return self._run(lambda: limits.admit(keys), atomic=True)

    def forget(self) -> int:
        """Remove the records of rates under which nothing has started for a while; return how many."""
        return self._run(limits.forget)


class WorkerBreakers:
    """Asks the breakers whether to call a provider, and counts what the call showed."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run

    def ask(self, name: str, probe: str, settings: BreakerSettings = DEFAULT_SETTINGS) -> Standing:
        """Ask, as a worker does, whether to call a provider.

        `probe` identifies the caller. Unless the provider is healthy, one caller at a time is granted it.
        """
        return self._run(lambda: breakers.ask(name, probe, settings))

    def answered(
        self, name: str, probe: str | None, answer: Answer, settings: BreakerSettings = DEFAULT_SETTINGS
    ) -> Standing:
        """Count, as a worker does, what a call showed about its provider; return the new standing."""
        return self._run(lambda: breakers.answered(name, probe, answer, settings))
