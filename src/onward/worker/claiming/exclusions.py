"""What a worker must not claim now: what is paused, what breakers hold, and other job types than its own."""

from __future__ import annotations

import time
from collections.abc import Collection

from onward.core.limits.pause import Controls
from onward.worker.attempts.breaker_gate import Breakers

# By then every worker has read from the database that the budget is spent.
_SPENT_SECONDS = 2.0


class Exclusions:
    """The pauses, the orgs that have just spent their budget, and what open breakers hold."""

    def __init__(self, breakers: Breakers | None, only_types: frozenset[str] | None = None) -> None:
        self._breakers = breakers
        self.only_types = only_types
        self.controls = Controls()
        # Computed only when they change, because each claim reads them several times.
        self._queues = self._orgs = self._types = frozenset[str]()
        self._spent_at: dict[str, float] = {}

    def update(self, controls: Controls) -> bool:
        """Store the gate and the pauses; return whether they have changed."""
        if (controls.gate, controls.pauses) == (self.controls.gate, self.controls.pauses):
            return False
        self.controls = controls
        self._queues = controls.paused("queue")
        self._orgs, self._types = controls.held_orgs, controls.paused("job_type")
        return True

    def add_spent(self, orgs: Collection[str]) -> None:
        """Exclude orgs that have just spent their budget."""
        self._spent_at.update(dict.fromkeys(orgs, time.monotonic()))

    @property
    def spent_orgs(self) -> frozenset[str]:
        """The orgs that have just spent their budget; the pauses include them soon afterwards."""
        if self._spent_at:
            since = time.monotonic() - _SPENT_SECONDS
            self._spent_at = {org: at for org, at in self._spent_at.items() if at > since}
        return frozenset(self._spent_at)

    @property
    def orgs(self) -> frozenset[str]:
        """The orgs whose jobs are not claimed."""
        return self._orgs | self.spent_orgs

    @property
    def types(self) -> frozenset[str]:
        """The job types whose jobs are not claimed."""
        return self._types if self._breakers is None else self._types | self._breakers.held_types()

    @property
    def any(self) -> bool:
        """Whether ready jobs may be left: by a pause or a breaker, or because the worker has other types."""
        if self.only_types is not None or self.controls.pauses:
            return True
        return self._breakers is not None and self._breakers.hold

    def has_queue(self, queue: str) -> bool:
        """Whether nothing is claimed from a queue."""
        return queue in self._queues or (self._breakers is not None and self._breakers.holds_queue(queue))
