"""The rules of queues: to read them, to set other bounds for a time, and to claim by them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from onward.clients.binding import AsyncBinding
from onward.core.limits.queue_policy import Bound, RateBound
from onward.operations.limits import queues
from onward.operations.limits.queues import Queue
from onward.operations.work import policy_claim
from onward.operations.work.policy_claim import RuledClaim


class AsyncQueues:
    """How queues are worked off: how many jobs at once, how fast, and in whose turn."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run
        self._rules = binding.rules

    async def list(self, *, limit: int = 1000) -> Sequence[Queue]:
        """Read the queues of which an application declared or an operator set something, by name."""
        return await self._run(lambda: queues.list_queues(limit=limit), write=False)

    async def get(self, name: str) -> Queue:
        """Read the rule of a queue; one of which nothing was said has none."""
        return await self._run(lambda: queues.get_queue(name), write=False)

    async def limit(
        self,
        name: str,
        *,
        concurrency: Bound | None = None,
        rate: RateBound | None = None,
        burst: int | None = None,
        reason: str,
    ) -> Queue:
        """Set other bounds than the declared ones, until `reset`; "none" lifts a bound."""
        bounds = {"concurrency": concurrency, "rate": rate, "burst": burst}
        return await self._run(
            lambda: queues.limit_queue(name, **bounds, reason=reason),  # type: ignore[arg-type]
            atomic=True,
        )

    async def reset(self, name: str, *, reason: str) -> bool:
        """Let the declared bounds hold again; False if none were set."""
        return await self._run(lambda: queues.reset_queue(name, reason=reason), atomic=True)

    async def declare(self) -> None:
        """Write, as a worker does at its start, what the application declares of its queues."""
        await self._run(lambda: queues.declare(self._rules.queues))

    async def claim(
        self,
        queue: str,
        limit: int = 1,
        *,
        worker_id: str,
        paused_orgs: Collection[str] = (),
        paused_types: Collection[str] = (),
    ) -> RuledClaim:
        """Claim, as a worker does, from a queue that has a rule; says also why there were not more."""
        paused = {"paused_orgs": paused_orgs, "paused_types": paused_types}
        declared = self._rules.queues.get(queue)
        return await self._run(
            lambda: policy_claim.claim_ruled(queue, limit, worker_id=worker_id, declared=declared, **paused),
            atomic=True,
        )
