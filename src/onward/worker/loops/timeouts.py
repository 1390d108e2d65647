"""Enforces limits of time: of running attempts, of jobs in the buffer, and of calls to the database.

No other loop waits for these, so this one checks them at a fixed interval.
"""

from __future__ import annotations

import asyncio
import time

from onward.clients.client import AsyncClient
from onward.worker.attempts.running_jobs import RunningJobs
from onward.worker.claiming.buffer import Buffer
from onward.worker.claiming.idle_wait import IdleWait
from onward.worker.claiming.throughput import Pace
from onward.worker.finishing.finisher import Finisher
from onward.worker.loops.lease_keeper import Keeper

_TIDY_SECONDS = 0.1
_TIDIES_HELD = 2
_BUSY_SECONDS = 1.0
_LEAST_PATIENCE = 4.0
_STANDSTILL = 1.0


class Tidier:
    """Every 100 ms, cancels attempts that ran too long and releases jobs that were held too long.

    It also breaks connections that do not answer, and clears the idle mark of a busy worker.
    """

    def __init__(
        self,
        client: AsyncClient,
        keeper: Keeper,
        running: RunningJobs,
        finisher: Finisher,
        idle: IdleWait,
        *,
        buffer: Buffer,
        pace: Pace,
        concurrency: int,
    ) -> None:
        self._client, self._keeper, self._running = client, keeper, running
        self._finisher, self._idle = finisher, idle
        self._buffer, self._pace = buffer, pace
        self._concurrency = concurrency
        self._patience = max(_LEAST_PATIENCE, keeper.lease.total_seconds() * 2 / 3)

    async def run(self) -> None:
        """Check every 100 ms until cancelled."""
        held = 0
        seen = stood_still = time.monotonic()
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            now = time.monotonic()
            self._running.check_times()
            # After a standstill of this process, answers may have arrived that are not read yet.
            stood_still = now if now - seen > _STANDSTILL else stood_still
            seen = now
            if now - stood_still > _STANDSTILL:
                self._hang_up()
            # Only when seen twice, else a pause of the whole process would look like slow jobs. Not later,
            # because a crash of this worker counts as an attempt for jobs that wait here.
            held = held + 1 if self._buffer.length > self._pace.most(now) + self._concurrency else 0
            if held >= _TIDIES_HELD:
                held = 0
                self._finisher.release(self._buffer.trim(self._pace.ahead(now)))
            # The idle mark asks for wake-ups, which a busy worker does not need.
            if self._keeper.idle and now - self._idle.waited_at > _BUSY_SECONDS:
                self._keeper.idle = False

    def _hang_up(self) -> None:
        """Break connections that are open but do not answer: the worker would wait on them for ever."""
        self._keeper.hang_up()
        self._client.store.hang_up(self._patience)
