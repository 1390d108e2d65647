"""Periodic work of a worker: makes due jobs ready, rescues jobs of dead workers, keeps tables small.

No error ends one of these loops.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta

from onward.clients.client import AsyncClient
from onward.logs import get_logger
from onward.operations.work.polls import FOLLOW_UP_PATIENCE
from onward.worker.loops.due_poll import DuePoll
from onward.worker.loops.lease_keeper import Keeper
from onward.worker.outage import Outage

log = get_logger("onward.worker")

SEALER = "audit"
"""The lead that a worker must have to seal the audit."""

_SWEEP_SECONDS = 2.0
_VACUUM_SECONDS = 4.0
_SEAL_SECONDS = 1.0
_LEAD = timedelta(seconds=6)
_AT_ONCE = 500


async def promote(client: AsyncClient, due_poll: DuePoll, ready: Callable[[Iterable[str]], None]) -> None:
    """Make jobs ready when they are due; every worker does so, and no two promote the same job."""

    async def once() -> bool:
        promoted = await client.worker.promote(_AT_ONCE)
        ready(promoted.queues)
        return bool(promoted.queues or promoted.permits)

    await due_poll.see_to(due_poll.jobs, once, "promoter")


async def vacuum(client: AsyncClient, outage: Outage) -> None:
    """Vacuum the hot table, because every claim would have to read past its dead rows.

    Every worker does so; a worker that finds another's vacuum under way does not wait for it.
    """

    async def once() -> float:
        await client.store.vacuum()
        return _VACUUM_SECONDS * random.uniform(0.75, 1.0)  # noqa: S311

    await _forever(once, outage, "vacuum")


async def seal(client: AsyncClient, keeper: Keeper, outage: Outage) -> None:
    """Seal the audit into its chain while this worker holds the lead for it."""

    async def once() -> float:
        started = time.monotonic()
        if await client.worker.lead(SEALER, keeper.worker_id, ttl=_LEAD):
            await client.audit.seal()
        # Slow seals are run less often, so that they never take more than a tenth of the time.
        return max(_SEAL_SECONDS, 10 * (time.monotonic() - started))

    await _forever(once, outage, "sealer")


async def follow_up(client: AsyncClient, due_poll: DuePoll) -> None:
    """Do the follow-up work of ends whose writer did not do it; at once if that is urgent."""

    async def once() -> bool:
        patience = timedelta(0) if due_poll.urgent else FOLLOW_UP_PATIENCE
        due_poll.urgent = False
        return bool(await client.worker.follow_up(patience=patience))

    await due_poll.see_to(due_poll.ends, once, "follow-up")


async def wake(client: AsyncClient, due_poll: DuePoll, ready: Callable[[Iterable[str]], None]) -> None:
    """Wake jobs whose signal has arrived and whose sender did not wake them; every worker does so."""

    async def once() -> bool:
        if not await client.worker.signals.wake():
            return False
        ready((await client.worker.promote(_AT_ONCE)).queues)
        return True

    await due_poll.see_to(due_poll.signals, once, "waker")


class Sweeper:
    """Rescues jobs while this worker leads; a leader that falls silent loses the lead."""

    def __init__(self, client: AsyncClient, keeper: Keeper, outage: Outage) -> None:
        self._client = client
        self._keeper = keeper
        self._outage = outage
        # The jobs of a leader that died must not wait longer for their rescue than those of other workers.
        self._ttl = min(_LEAD, keeper.lease)

    async def sweep(self) -> None:
        """Rescue the jobs of workers whose lease ran out, until cancelled."""
        await _forever(self._sweep, self._outage, "sweeper")

    async def _sweep(self) -> float:
        swept = await self._client.worker.sweep(self._keeper.worker_id, ttl=self._ttl, limit=_AT_ONCE)
        if swept.leases.held:
            log.warning("took back what silent workers had (jobs: %s)", len(swept.leases.held))
        if len(swept.leases.held) >= _AT_ONCE:
            return 0.0
        # Spread, else workers that were started together would all ask at the same moment.
        return _SWEEP_SECONDS * random.uniform(0.75, 1.0)  # noqa: S311


async def _forever(once: Callable[[], Awaitable[float]], outage: Outage, source: str) -> None:
    while True:
        try:
            pause = await once()
        except Exception as error:  # noqa: BLE001 - no error may end this
            pause = outage.pause(source, error)
        else:
            outage.over(source)
        await asyncio.sleep(pause)
