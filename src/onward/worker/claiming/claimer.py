"""Claims jobs before slots are free, and waits for new jobs when there are none.

No error ends the claiming; jobs of a claim whose answer was lost are found again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import NamedTuple

from onward.clients.client import AsyncClient
from onward.core.jobs.job import Job
from onward.core.limits.pause import Controls
from onward.core.work.claim import Watch
from onward.errors import StoreError, WorkerLost
from onward.stores.wakeups import Wakeups
from onward.worker.attempts.breaker_gate import Breakers
from onward.worker.claiming.buffer import Buffer, Lane
from onward.worker.claiming.queue_policies import RuledQueues
from onward.worker.claiming.throughput import AT_ONCE, Pace
from onward.worker.clock_skew import Skew
from onward.worker.loops.lease_keeper import Keeper
from onward.worker.outage import Outage
from onward.worker.stopping import Stopping

# A claim under a policy runs several statements, however few jobs it returns.
_MOST_BY_RULE = 1000
_CLAIMS = 2
_POLL_SECONDS = 1.0
_TOLD_SECONDS = 2.0
_MOMENT = 0.1
_DOUBT_SECONDS = 10.0
_LOOK_SECONDS = 0.2


class _Held(NamedTuple):
    """What is paused, computed only when it changes, because each claim reads it several times."""

    queues: frozenset[str] = frozenset()
    orgs: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


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
        buffer: Buffer,
        pace: Pace,
        feed: Callable[[], None],
        known: Callable[[], set[str]],
        hear: Callable[[frozenset[str]], frozenset[str]],
        behind: Callable[[], bool],
        queues: Collection[str] | None,
        budget: int | None,
        drain: bool,
        breakers: Breakers | None = None,
    ) -> None:
        self._client, self._breakers = client, breakers
        self._at_once = AT_ONCE[client.store.database]
        self._keeper, self._outage = keeper, outage
        self._wakeups, self._stopping = wakeups, stopping
        self._buffer, self._pace = buffer, pace
        self._feed = feed
        self._known, self._hear, self._behind = known, hear, behind
        self._queues = None if queues is None else frozenset(queues)
        self._budget, self._drain = budget, drain
        self._ready, self._seen, self._barren = set[str](), set[str](), set[str]()
        self._room, self._free = asyncio.Event(), asyncio.Event()
        self._free.set()
        self.controls, self._held, self._skew = Controls(), _Held(), Skew()
        self._ruled = RuledQueues(client.policies.registry.queues)
        self._closing = self.quiet = False
        self.claims, self._under_way, self._spent_at = 0, list[asyncio.Task[None]](), dict[str, float]()
        self._doubted_at: float | None = None
        self._adopt_at = 0.0
        self.dry = asyncio.Event()
        self.waited_at = self._looked_at = time.monotonic()
        self._asked_at = float("-inf")

    @property
    def spent(self) -> bool:
        """Whether the worker has claimed as many jobs as its budget (`max_jobs`) allows."""
        return self._budget is not None and self._budget <= 0

    @property
    def _over(self) -> bool:
        return self._closing or self._stopping.asked

    def told(self, watch: Watch) -> None:
        """Take over the gate, the pauses, and which queues have a policy."""
        self._ruled.told(watch.ruled)
        if (watch.gate, watch.pauses) == (self.controls.gate, self.controls.pauses):
            return
        self.controls = watch
        self._held = _Held(watch.paused("queue"), watch.held_orgs, watch.paused("job_type"))
        self._ready = {queue for queue in self._ready if self._serves(queue)}
        self._set_free()
        self._room.set()
        self._wakeups.wake()

    @property
    def spent_orgs(self) -> frozenset[str]:
        """The orgs that have just spent their budget, until the watch of every worker shows it."""
        if self._spent_at:
            since = time.monotonic() - _TOLD_SECONDS
            self._spent_at = {org: at for org, at in self._spent_at.items() if at > since}
        return frozenset(self._spent_at)

    def hold(self, orgs: Collection[str]) -> None:
        """Claim no more jobs of orgs that have just spent their budget."""
        self._spent_at.update(dict.fromkeys(orgs, time.monotonic()))

    def set_quiet(self, on: bool) -> None:
        """Stop claiming, or start again."""
        self.quiet = on
        self._set_free()

    def close(self) -> None:
        """Claim no more; `run` still waits for claims under way, because their jobs belong to this worker."""
        self._closing = True
        self._buffer.close()
        self._free.set()
        self._room.set()
        self._wakeups.wake()

    def ended(self) -> None:
        """Record that a slot is free."""
        self._room.set()
        if self._drain and not self._buffer.busy:
            self._wakeups.wake()

    def caught_up(self, queues: Iterable[str] = ()) -> None:
        """Record that results of jobs of these queues were written."""
        self._room.set()
        self.ready(self._ruled.ended(queues))

    def ready(self, queues: Iterable[str]) -> None:
        """Record that these queues may have ready jobs."""
        served = {queue for queue in queues if self._serves(queue)}
        if served:
            self._ready |= served
            self._room.set()
            self._wakeups.wake()

    async def more(self, claims: int, admitted: Callable[[], Awaitable[bool]]) -> bool:
        """Whether jobs may be ready now or within a second, or were claimed since `claims` was read."""
        try:
            if await self._client.worker.settle() or await admitted():
                return True
            look = await self._client.worker.look()
        except StoreError as error:
            await asyncio.sleep(self._outage.pause("drain", error))
            return True
        self._outage.over("drain")
        wait = _POLL_SECONDS if look.next_due is None else (look.next_due - look.now).total_seconds()
        holds = self.controls.pauses or (self._breakers is not None and self._breakers.hold)
        held_back = self._ruled.held_longer(_POLL_SECONDS) | (self._barren if holds else set())
        if any(self._serves(queue) for queue in look.ready - held_back):
            self.dry.clear()
            self._wakeups.wake()
        elif wait < _POLL_SECONDS:
            await asyncio.sleep(max(wait, _MOMENT))
            return True
        # Jobs that were claimed meanwhile are neither ready nor written yet.
        return claims != self.claims or not self.dry.is_set()

    async def run(self) -> None:
        """Claim until closed, or until the budget is spent."""
        try:
            await self._claim_on()
            await asyncio.gather(*self._under_way, return_exceptions=True)
        finally:
            for claim in self._under_way:
                claim.cancel()
            self.dry.set()

    async def _claim_on(self) -> None:
        while not self.spent and not self._over:
            try:
                if self._doubted_at is not None:
                    await self._adopt(self._doubted_at)
                await self._free.wait()
                await (self._claim() if self._ready else self._wait())
            except WorkerLost:
                # The keeper registers again; until then the worker has no id to claim with.
                await asyncio.sleep(_MOMENT)
            except Exception as error:  # noqa: BLE001 - no error may end the claiming
                self._doubted_at, self._adopt_at = time.monotonic(), 0.0
                await asyncio.sleep(self._outage.pause("claimer", error))

    async def _adopt(self, since: float) -> None:
        """Find the jobs of a claim whose answer never came: this worker's lease is alive, so no rescue would.

        Repeated for some time, because the server may finish that claim after the worker has given it up.
        """
        now = time.monotonic()
        if now < self._adopt_at:
            return
        await self._arrived()
        self._adopt_at = now + _POLL_SECONDS
        # Read first: a job that ends while the database answers must not look like a lost one.
        known, worker_id = self._known(), self._keeper.worker_id
        held = await self._client.worker.held(worker_id)
        self._outage.over("claimer")
        if now - since > _DOUBT_SECONDS:
            self._doubted_at = None
        if worker_id == self._keeper.worker_id:
            for job in held:
                if job.id not in known:
                    self._take(job.queue, [job])

    async def _claim(self) -> None:
        """Fill the buffer from the ready queues, or wait until it has room."""
        now = time.monotonic()
        # Else new jobs of another queue would wait until the known queues are empty.
        if now - self._looked_at > _LOOK_SECONDS:
            self._barren.clear()
            if not await self._look():
                return
        self._room.clear()
        shares = self._shares()
        if not shares:
            await (self._arrived() if self._under_way else self._room.wait())
            return
        if self._over:
            return
        for lane, share in shares:
            most = self._most(lane.queue)
            # Claims under a policy exclude each other: a second one would only wait for the first.
            alone = self._budget is not None or lane.queue in self._ruled.names
            if share >= most and lane.reached and not alone:
                await self._claim_beside(lane, most)
            else:
                await self._claim_from(lane, share)

    def _shares(self) -> list[tuple[Lane, int]]:
        """Return how many jobs to claim from each ready queue; none while enough jobs wait here."""
        ahead = self._pace.ahead(time.monotonic())
        # Not before the buffer is half empty: smaller claims would cost a round trip for fewer jobs.
        if self._behind() or self._buffer.queued + self._buffer.coming > ahead // 2:
            return []
        return self._buffer.shares(self._ready, ahead)

    def _most(self, queue: str) -> int:
        return _MOST_BY_RULE if queue in self._ruled.names else self._at_once

    async def _claim_beside(self, lane: Lane, share: int) -> None:
        """Start a claim beside another, so that more jobs are on their way before the last have arrived."""
        self._under_way.append(asyncio.create_task(self._claim_on_from(lane, share)))
        await asyncio.sleep(0)
        if len(self._under_way) >= _CLAIMS:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            for claim in [claim for claim in self._under_way if claim.done()]:
                # A claim that failed raises here; the other finished claims are awaited next time.
                self._under_way.remove(claim)
                await claim

    async def _claim_on_from(self, lane: Lane, share: int) -> None:
        """Claim, and again as soon as the jobs are here, else all of them would run before the next claim.

        Stop when other queues have jobs too, because those would have to wait for their turn.
        """
        await self._claim_from(lane, share)
        while self._free.is_set() and not self._over and self._looked_at + _LOOK_SECONDS > time.monotonic():
            if self._ready != {lane.queue} or dict(self._shares()).get(lane, 0) < share:
                return
            await self._claim_from(lane, share)

    async def _arrived(self) -> None:
        """Wait for the claims that are under way."""
        while self._under_way:
            await self._under_way.pop(0)

    async def _claim_from(self, lane: Lane, share: int) -> None:
        self.dry.clear()
        self.claims += 1
        limit = min(share, self._most(lane.queue), self._budget or share)
        self._buffer.expect(lane, limit)
        # A small claim starts at the front, because a more urgent job may be new there.
        many = limit == self._at_once and lane.queue not in self._ruled.names
        past = lane.past(time.monotonic()) if many else None
        try:
            jobs = await self._ask(lane.queue, limit, past)
        finally:
            self._buffer.expect(lane, -limit)
        lane.reached = jobs[-1] if len(jobs) == limit else None
        # A claim behind `past` that returns too few does not show that no jobs are before it.
        if (lane.reached is None and past is None) or lane.queue in self._ruled.held():
            self._ready.discard(lane.queue)
        if not jobs and past is None and lane.queue in self._seen:
            self._barren.add(lane.queue)
        self._seen.discard(lane.queue)
        self._take(lane.queue, jobs)
        if jobs and len(jobs) < limit:
            # Let the last ready jobs begin before the next look.
            await asyncio.sleep(0)

    async def _ask(self, queue: str, limit: int, past: Job | None) -> list[Job]:
        orgs, types = self._held.orgs | self.spent_orgs, self._held.types
        if self._breakers is not None:
            types |= self._breakers.held_types()
        who = self._keeper.worker_id
        if queue not in self._ruled.names:
            return await self._client.worker.claim(
                queue, limit, worker_id=who, paused_orgs=orgs, paused_types=types, past=past
            )
        ends, theirs = self._ruled.ends, not self._known()
        claim = await self._client.worker.claim_ruled(
            queue, limit, worker_id=who, paused_orgs=orgs, paused_types=types
        )
        self._ruled.claimed(queue, claim, ends, theirs=theirs)
        return claim.jobs

    def _take(self, queue: str, jobs: list[Job]) -> None:
        if self._budget is not None:
            self._budget -= len(jobs)
        self._buffer.add(queue, jobs, in_turn=queue in self._ruled.names)
        self._feed()

    async def _wait(self) -> None:
        """Mark the worker as idle in the database, so that enqueuing processes wake it; wait for new jobs."""
        await self._arrived()
        # A worker marked as idle is woken for every job since its last claim, so it need not look.
        told = self._keeper.marked_idle and self._wakeups.tells and not self._drain
        pause = _POLL_SECONDS * random.uniform(0.75, 1.25)  # noqa: S311
        longest = self._asked_at + pause - time.monotonic() if told else 0.0
        if longest <= 0:
            if await self._look():
                return
            longest = pause
        if not self._keeper.marked_idle:
            self._keeper.idle = True
            await self._client.worker.extend(self._keeper.worker_id, (), lease=self._keeper.lease, idle=True)
            self._keeper.marked_idle = True
            if await self._look():
                return
        if not self._buffer.busy:
            self.dry.set()
        # Infinite while the worker waits: only a worker that was busy for a while clears its idle mark.
        self.waited_at = float("inf")
        names = await self._wakeups.wait(self._ruled.next_in(longest))
        woken = None if names is None else self._hear(names)
        # A wake-up that names its queue needs no look before the claim. One that names none may be about
        # any queue.
        self.waited_at = self._looked_at = time.monotonic()
        if not woken:
            self._asked_at = float("-inf")
        self._barren.clear()
        self._ready |= {queue for queue in woken or () if self._serves(queue)} - self._ruled.held()

    async def _look(self) -> bool:
        look = await self._client.worker.look()
        self._skew.seen(look.now)
        self._looked_at = self._asked_at = time.monotonic()
        # A queue whose ready jobs this worker can't claim (paused, or just being claimed elsewhere) is left
        # alone until the next wake-up, else the worker would ask for them without end.
        self._seen = {queue for queue in look.ready if self._serves(queue)}
        self._ready = self._seen - self._barren - self._ruled.held()
        return bool(self._ready)

    def _serves(self, queue: str) -> bool:
        if self._breakers is not None and self._breakers.holds_queue(queue):
            return False
        return (self._queues is None or queue in self._queues) and queue not in self._held.queues

    def _set_free(self) -> None:
        if self.quiet or self.controls.gate is not None:
            self._free.clear()
        else:
            self._free.set()
