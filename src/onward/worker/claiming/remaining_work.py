"""Whether a worker that drains its queues has work left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from onward.clients.client import AsyncClient
from onward.errors import StoreError
from onward.stores.wakeups import Wakeups
from onward.worker.claiming.claimable_queues import ClaimableQueues
from onward.worker.claiming.idle_wait import POLL_SECONDS
from onward.worker.claiming.queue_claims import QueueClaims
from onward.worker.outage import Outage

_SHORTEST_WAIT = 0.1


class RemainingWork:
    """Looks for jobs that are ready now or within a second."""

    def __init__(
        self,
        client: AsyncClient,
        outage: Outage,
        wakeups: Wakeups,
        queues: ClaimableQueues,
        claims: QueueClaims,
    ) -> None:
        self._client = client
        self._outage = outage
        self._wakeups = wakeups
        self._queues = queues
        self._claims = claims

    async def exists(self, claims: int, admit: Callable[[], Awaitable[bool]]) -> bool:
        """Whether jobs may be ready now or within a second, or were claimed since `claims` was read."""
        try:
            if await self._client.worker.follow_up() or await admit():
                return True
            ready = await self._client.worker.ready_queues()
        except StoreError as error:
            await asyncio.sleep(self._outage.pause("drain", error))
            return True
        self._outage.over("drain")
        wait = POLL_SECONDS if ready.next_due is None else (ready.next_due - ready.now).total_seconds()
        if self._queues.any_within(POLL_SECONDS, ready.queues):
            self._claims.dry.clear()
            self._wakeups.wake()
        elif wait < POLL_SECONDS:
            await asyncio.sleep(max(wait, _SHORTEST_WAIT))
            return True
        # Jobs that were claimed meanwhile are neither ready nor written yet.
        return claims != self._claims.count or not self._claims.dry.is_set()
