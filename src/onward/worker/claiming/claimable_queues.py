"""The queues from which a worker may claim, and which of them have ready jobs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from onward.clients.client import AsyncClient
from onward.worker.claiming.exclusions import Exclusions
from onward.worker.claiming.queue_policies import QueuePolicies
from onward.worker.clock_skew import Skew


class ClaimableQueues:
    """The queues that the worker serves; `ready` are those that may have jobs to claim."""

    def __init__(
        self,
        client: AsyncClient,
        served: Collection[str] | None,
        exclusions: Exclusions,
        policies: QueuePolicies,
    ) -> None:
        self._client = client
        self._served = None if served is None else frozenset(served)
        self._exclusions = exclusions
        self._policies = policies
        self._skew = Skew()
        self.ready: set[str] = set()
        self._found: set[str] = set()
        self._fruitless: set[str] = set()
        self.updated_at = time.monotonic()
        self.queried_at = float("-inf")

    def serves(self, queue: str) -> bool:
        """Whether the worker may claim from a queue now."""
        return (self._served is None or queue in self._served) and not self._exclusions.has_queue(queue)

    def recheck(self) -> None:
        """Drop the ready queues that are excluded by now."""
        self.ready = {queue for queue in self.ready if self.serves(queue)}

    def add(self, queues: Iterable[str]) -> bool:
        """Add queues that may have ready jobs; return whether the worker serves any of them."""
        served = {queue for queue in queues if self.serves(queue)}
        self.ready |= served
        return bool(served)

    def woken(self, queues: frozenset[str] | None) -> None:
        """Add the queues that a wake-up names, if any.

        They need no query before the claim. A wake-up that names none may be about any queue.
        """
        self.updated_at = time.monotonic()
        if not queues:
            self.queried_at = float("-inf")
        self._fruitless.clear()
        self.add((queues or frozenset()) - self._policies.held())

    def retry_fruitless(self) -> None:
        """Allow claims from queues again whose ready jobs could not be claimed."""
        self._fruitless.clear()

    async def query(self) -> bool:
        """Ask the database which queues have ready jobs; return whether the worker may claim from any."""
        ready = await self._client.worker.ready_queues()
        self._skew.compare(ready.now)
        self.updated_at = self.queried_at = time.monotonic()
        # A queue whose ready jobs this worker can't claim (paused, or just being claimed elsewhere) is left
        # alone until the next wake-up, else the worker would ask for them without end.
        self._found = {queue for queue in ready.queues if self.serves(queue)}
        self.ready = self._found - self._fruitless - self._policies.held()
        return bool(self.ready)

    def claimed(self, queue: str, *, exhausted: bool, found: bool) -> None:
        """Record whether a claim has `exhausted` its queue, and whether it has `found` any job."""
        if exhausted or queue in self._policies.held():
            self.ready.discard(queue)
        if exhausted and not found and queue in self._found:
            self._fruitless.add(queue)
        self._found.discard(queue)

    def any_within(self, seconds: float, ready: frozenset[str]) -> bool:
        """Whether a job of the `ready` queues can be claimed within some seconds."""
        held_back = self._policies.held_longer(seconds) | (self._fruitless if self._exclusions.any else set())
        return any(self.serves(queue) for queue in ready - held_back)
