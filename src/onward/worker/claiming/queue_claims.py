"""Claims jobs of one queue and adds them to the buffer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from onward.clients.client import AsyncClient
from onward.core.jobs.job import Job
from onward.core.work.claim import QueuePosition
from onward.worker.claiming.buffer import Buffer, Lane
from onward.worker.claiming.claim_plan import ClaimPlan
from onward.worker.claiming.claimable_queues import ClaimableQueues
from onward.worker.claiming.exclusions import Exclusions
from onward.worker.claiming.queue_policies import QueuePolicies
from onward.worker.loops.lease_keeper import Keeper


class QueueClaims:
    """The claims of one worker; `dry` is set while no job waits for a claim, `count` is their number."""

    def __init__(
        self,
        client: AsyncClient,
        keeper: Keeper,
        queues: ClaimableQueues,
        *,
        exclusions: Exclusions,
        policies: QueuePolicies,
        plan: ClaimPlan,
        buffer: Buffer,
        start_jobs: Callable[[], None],
        held_ids: Callable[[], set[str]],
    ) -> None:
        self._client = client
        self._keeper = keeper
        self._queues = queues
        self._exclusions = exclusions
        self._policies = policies
        self._plan = plan
        self._buffer = buffer
        self._start_jobs = start_jobs
        self._held_ids = held_ids
        self.count = 0
        self.dry = asyncio.Event()

    async def claim(self, lane: Lane, share: int) -> None:
        """Claim at most `share` jobs of a queue."""
        self.dry.clear()
        self.count += 1
        limit, past = self._plan.next_claim(lane, share)
        self._buffer.expect(lane, limit)
        try:
            jobs = await self._jobs(lane.queue, limit, past)
        finally:
            self._buffer.expect(lane, -limit)
        lane.reached = QueuePosition.of(jobs[-1]) if len(jobs) == limit else None
        # A claim behind `past` that returns too few does not show that no jobs are before it.
        exhausted = lane.reached is None and past is None
        self._queues.claimed(lane.queue, exhausted=exhausted, found=bool(jobs))
        self.take(lane.queue, jobs)
        if jobs and len(jobs) < limit:
            # Let the last ready jobs begin before the next query.
            await asyncio.sleep(0)

    def take(self, queue: str, jobs: list[Job]) -> None:
        """Add claimed jobs to the buffer, and let them begin."""
        self._plan.count(len(jobs))
        self._buffer.add(queue, jobs, in_turn=queue in self._policies.names)
        self._start_jobs()

    async def _jobs(self, queue: str, limit: int, past: QueuePosition | None) -> list[Job]:
        orgs, types, worker_id = self._exclusions.orgs, self._exclusions.types, self._keeper.worker_id
        own = self._exclusions.only_types
        if queue not in self._policies.names:
            return await self._client.worker.claim(
                queue,
                limit,
                worker_id=worker_id,
                paused_orgs=orgs,
                paused_types=types,
                job_types=own,
                past=past,
            )
        ends, theirs = self._policies.ends, not self._held_ids()
        claim = await self._client.worker.claim_by_policy(
            queue, limit, worker_id=worker_id, paused_orgs=orgs, paused_types=types, job_types=own
        )
        self._policies.claimed(queue, claim, ends, theirs=theirs)
        return claim.jobs
