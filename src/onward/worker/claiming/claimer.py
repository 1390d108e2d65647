"""Claims jobs before slots are free, and waits for new jobs when there are none.

No error ends the claiming; jobs of a claim whose answer was lost are found again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable

from onward.clients.client import AsyncClient
from onward.core.work.claim import Instructions
from onward.errors import WorkerLost
from onward.stores.wakeups import Wakeups
from onward.worker.claiming.buffer import Buffer, Lane
from onward.worker.claiming.claim_gate import ClaimGate
from onward.worker.claiming.claim_plan import ClaimPlan
from onward.worker.claiming.claimable_queues import ClaimableQueues
from onward.worker.claiming.exclusions import Exclusions
from onward.worker.claiming.idle_wait import IdleWait
from onward.worker.claiming.lost_claims import LostClaims
from onward.worker.claiming.queue_claims import QueueClaims
from onward.worker.claiming.queue_policies import QueuePolicies
from onward.worker.claiming.remaining_work import RemainingWork
from onward.worker.claiming.throughput import AT_ONCE, Pace
from onward.worker.loops.lease_keeper import Keeper
from onward.worker.outage import Outage
from onward.worker.stopping import Stopping

_OVERLAPPING = 2
_RETRY_SECONDS = 0.1
_QUERY_SECONDS = 0.2


class Claimer:
    """Keeps the buffer filled from the queues that have ready jobs."""

    def __init__(
        self,
        client: AsyncClient,
        keeper: Keeper,
        outage: Outage,
        wakeups: Wakeups,
        *,
        stopping: Stopping,
        exclusions: Exclusions,
        buffer: Buffer,
        pace: Pace,
        start_jobs: Callable[[], None],
        held_ids: Callable[[], set[str]],
        queue_names: Callable[[frozenset[str]], frozenset[str]],
        writes_lag: Callable[[], bool],
        queues: Collection[str] | None,
        budget: int | None,
        drain: bool,
    ) -> None:
        self._outage, self._wakeups, self._buffer = outage, wakeups, buffer
        self._drain = drain
        self._exclusions = exclusions
        self._policies = policies = QueuePolicies(client.policies.registry.queues)
        self._queues = ClaimableQueues(client, queues, exclusions, policies)
        self.gate = ClaimGate(stopping)
        self.plan = ClaimPlan(
            buffer, pace, policies,
            at_once=AT_ONCE[client.store.database], budget=budget, writes_lag=writes_lag,
        )  # fmt: skip
        self.claims = QueueClaims(
            client, keeper, self._queues, exclusions=exclusions, policies=policies, plan=self.plan,
            buffer=buffer, start_jobs=start_jobs, held_ids=held_ids,
        )  # fmt: skip
        self.idle = IdleWait(
            client, keeper, wakeups, self._queues, policies, drain=drain, queue_names=queue_names
        )
        self._lost = LostClaims(client, keeper, held_ids)
        self.remaining = RemainingWork(client, outage, wakeups, self._queues, self.claims)
        self._room = asyncio.Event()
        self._under_way: list[asyncio.Task[None]] = []

    def update(self, instructions: Instructions) -> None:
        """Take over the gate, the pauses, and which queues have a policy."""
        self._policies.update(instructions.policy_queues)
        if self._exclusions.update(instructions):
            self._queues.recheck()
            self.gate.set_held(instructions.gate is not None)
            self._wake()

    def close(self) -> None:
        """Claim no more; `run` still waits for claims under way, because their jobs belong to this worker."""
        self.gate.end()
        self._buffer.close()
        self._wake()

    def slot_freed(self) -> None:
        """Record that a slot is free."""
        self._room.set()
        if self._drain and not self._buffer.busy:
            self._wakeups.wake()

    def ends_written(self, queues: Iterable[str] = ()) -> None:
        """Record that results of jobs of these queues were written."""
        self._room.set()
        self.add_ready(self._policies.ended(queues))

    def add_ready(self, queues: Iterable[str]) -> None:
        """Record that these queues may have ready jobs."""
        if self._queues.add(queues):
            self._wake()

    async def run(self) -> None:
        """Claim until closed, or until the budget is spent."""
        try:
            await self._claim_on()
            await asyncio.gather(*self._under_way, return_exceptions=True)
        finally:
            for claim in self._under_way:
                claim.cancel()
            self.claims.dry.set()

    async def _claim_on(self) -> None:
        while not self.plan.spent and not self.gate.over:
            try:
                if self._lost.due:
                    await self._adopt()
                await self.gate.wait()
                await (self._claim() if self._queues.ready else self._wait())
            except WorkerLost:
                # The keeper registers again; until then the worker has no id to claim with.
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception as error:  # noqa: BLE001 - no error may end the claiming
                self._lost.suspect()
                await asyncio.sleep(self._outage.pause("claimer", error))

    async def _adopt(self) -> None:
        await self._arrived()
        found = await self._lost.find()
        self._outage.over("claimer")
        for job in found:
            self.claims.take(job.queue, [job])

    async def _claim(self) -> None:
        """Fill the buffer from the ready queues, or wait until it has room."""
        # Else new jobs of another queue would wait until the known queues are empty.
        if time.monotonic() - self._queues.updated_at > _QUERY_SECONDS:
            self._queues.retry_fruitless()
            if not await self._queues.query():
                return
        self._room.clear()
        shares = self.plan.shares(self._queues.ready)
        if not shares:
            await (self._arrived() if self._under_way else self._room.wait())
            return
        if self.gate.over:
            return
        for lane, share in shares:
            if self.plan.may_overlap(lane, share):
                await self._claim_beside(lane, self.plan.at_once)
            else:
                await self.claims.claim(lane, share)

    async def _claim_beside(self, lane: Lane, share: int) -> None:
        """Start a claim beside another, so that more jobs are on their way before the last have arrived."""
        self._under_way.append(asyncio.create_task(self._claim_on_from(lane, share)))
        await asyncio.sleep(0)
        if len(self._under_way) >= _OVERLAPPING:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            for claim in [claim for claim in self._under_way if claim.done()]:
                # A claim that failed raises here; the other finished claims are awaited next time.
                self._under_way.remove(claim)
                await claim

    async def _claim_on_from(self, lane: Lane, share: int) -> None:
        """Claim, and again as soon as the jobs are here, else all of them would run before the next claim.

        Stop when other queues have jobs too, because those would have to wait for their turn.
        """
        queues = self._queues
        await self.claims.claim(lane, share)
        while (
            self.gate.is_open
            and not self.gate.over
            and queues.updated_at + _QUERY_SECONDS > time.monotonic()
            and queues.ready == {lane.queue}
            and dict(self.plan.shares(queues.ready)).get(lane, 0) >= share
        ):
            await self.claims.claim(lane, share)

    async def _arrived(self) -> None:
        """Wait for the claims that are under way."""
        while self._under_way:
            await self._under_way.pop(0)

    async def _wait(self) -> None:
        """Wait for new jobs."""
        await self._arrived()
        if (longest := await self.idle.begin()) > 0:
            if not self._buffer.busy:
                self.claims.dry.set()
            await self.idle.wait(longest)

    def _wake(self) -> None:
        self._room.set()
        self._wakeups.wake()
