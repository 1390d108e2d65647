"""The policies of queues: read them, override their bounds for a time, and claim by them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from onward.clients.binding import AsyncBinding
from onward.core.limits.queue_policy import Bound, Queue, RateBound
from onward.core.work.claim import RuledClaim
from onward.operations.limits import queues
from onward.operations.work import policy_claim


class AsyncQueues:
    """The policy of a queue: how many jobs run at once, how fast they start, and the turns of orgs."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run
        self._rules = binding.rules

    async def list(self, *, limit: int = 1000) -> Sequence[Queue]:
        """Read the queues that an application has declared or an operator has bounded, by name."""
        return await self._run(lambda: queues.list_queues(limit=limit), write=False)

    async def get(self, name: str) -> Queue:
        """Read the policy of a queue; an unknown queue has an empty one."""
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
        """Override the declared bounds until `reset`; "none" lifts a bound."""
        bounds = {"concurrency": concurrency, "rate": rate, "burst": burst}
        return await self._run(
            lambda: queues.limit_queue(name, **bounds, reason=reason),  # type: ignore[arg-type]
            atomic=True,
        )

    async def reset(self, name: str, *, reason: str) -> bool:
        """Remove the override, so that the declared bounds hold again; False if there was none."""
        return await self._run(lambda: queues.reset_queue(name, reason=reason), atomic=True)

    async def declare(self) -> None:
        """Write, as a worker does at its start, the policies that the application declares."""
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
        """Claim, as a worker does, from a queue that has a policy; also return what bounded the claim."""
        paused = {"paused_orgs": paused_orgs, "paused_types": paused_types}
        declared = self._rules.queues.get(queue)
        return await self._run(
            lambda: policy_claim.claim_ruled(queue, limit, worker_id=worker_id, declared=declared, **paused),
            atomic=True,
        )
