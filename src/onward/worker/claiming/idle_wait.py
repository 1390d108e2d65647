"""Waits for new jobs, as a worker that is marked as idle in the database."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from onward.clients.client import AsyncClient
from onward.stores.wakeups import Wakeups
from onward.worker.claiming.claimable_queues import ClaimableQueues
from onward.worker.claiming.queue_policies import QueuePolicies
from onward.worker.loops.lease_keeper import Keeper

POLL_SECONDS = 1.0
"""How often an idle worker asks the database which queues have ready jobs."""


class IdleWait:
    """Marks the worker as idle, so that enqueuing processes wake it; `waited_at` is when it last waited."""

    def __init__(
        self,
        client: AsyncClient,
        keeper: Keeper,
        wakeups: Wakeups,
        queues: ClaimableQueues,
        policies: QueuePolicies,
        *,
        drain: bool,
        queue_names: Callable[[frozenset[str]], frozenset[str]],
    ) -> None:
        self._client = client
        self._keeper = keeper
        self._wakeups = wakeups
        self._queues = queues
        self._policies = policies
        self._drain = drain
        self._queue_names = queue_names
        self.waited_at = time.monotonic()

    async def begin(self) -> float:
        """Mark the worker as idle; return the seconds to wait, or 0 if a queue has ready jobs."""
        # A worker marked as idle is woken for every job since its last claim, so it need not ask.
        woken_for_each = self._keeper.marked_idle and self._wakeups.for_each_job and not self._drain
        pause = POLL_SECONDS * random.uniform(0.75, 1.25)  # noqa: S311
        longest = self._queues.queried_at + pause - time.monotonic() if woken_for_each else 0.0
        if longest <= 0:
            if await self._queues.query():
                return 0.0
            longest = pause
        if not self._keeper.marked_idle:
            self._keeper.idle = True
            await self._client.worker.extend(self._keeper.worker_id, (), lease=self._keeper.lease, idle=True)
            self._keeper.marked_idle = True
            if await self._queues.query():
                return 0.0
        return longest

    async def wait(self, longest: float) -> None:
        """Wait for a wake-up, at most `longest` seconds."""
        # Infinite while the worker waits: only a worker that was busy for a while clears its idle mark.
        self.waited_at = float("inf")
        names = await self._wakeups.wait(self._policies.next_in(longest))
        queues = None if names is None else self._queue_names(names)
        self.waited_at = time.monotonic()
        self._queues.woken(queues)
