"""The alerter: finds dead jobs and findings, and has them delivered to the sinks.

No error of a sink or of the doctor reaches a job.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta

from onward.clients.client import AsyncClient
from onward.core.failures.alert import raises_alert
from onward.core.upkeep.diagnosis import Finding
from onward.logs import get_logger
from onward.operations.failures.alerts import AT_ONCE
from onward.worker.loops.alert_delivery import Delivery
from onward.worker.loops.lease_keeper import Keeper
from onward.worker.outage import Outage
from onward.worker.timings import Timings

ALERTER = "alerter"
"""The lead that a worker must have to send alerts."""

log = get_logger("onward.worker")

_ROUND_SECONDS = 1.0
_FOLLOW_SECONDS = 2.0
_DEEP_SECONDS = 60.0
_PRUNE_SECONDS = 600.0
_LEAD = timedelta(seconds=6)

Check = Callable[[], Awaitable[Collection[Finding]]]


class Alerter:
    """Finds alerts while this worker leads, and starts their delivery."""

    def __init__(
        self,
        client: AsyncClient,
        keeper: Keeper,
        outage: Outage,
        *,
        timings: Timings,
        check: Check | None = None,
    ) -> None:
        self._timings = timings
        self._client = client
        self._keeper = keeper
        self._outage = outage
        self._check = check
        self._delivery = Delivery(client, outage, limit=timings.sink)
        self._ttl = min(_LEAD, keeper.lease)
        self._rounds = asyncio.Lock()
        self._check_failed = False
        now = time.monotonic()
        self._deep_at = now
        self._prune_at = now + _PRUNE_SECONDS
        self._check_at = now + self._timings.check

    async def run(self) -> None:
        """Find and send alerts until cancelled."""
        try:
            # Spread, else workers that were started together would all ask at the same moment.
            await asyncio.sleep(_ROUND_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311
            while True:
                try:
                    pause = await self._round()
                except Exception as error:  # noqa: BLE001 - no error may end this
                    pause = self._outage.pause("alerter", error)
                else:
                    self._outage.over("alerter")
                await asyncio.sleep(pause)
        finally:
            await self._delivery.close()

    async def finish(self, seconds: float) -> None:
        """Do the pending rounds and wait for the sinks, at most `seconds`; for a worker that drains."""
        if not self._client.policies.registry.sinks:
            return
        until = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                while not await self._round() and time.monotonic() < until:
                    pass
        except Exception as error:  # noqa: BLE001 - it is there for the next worker
            log.warning("alerts were not sent, and are left to the next worker: %s", type(error).__name__)
        await self._delivery.wait(max(0.0, until - time.monotonic()))

    async def _round(self) -> float:
        """Find new alerts and begin to send them; return the seconds until the next round."""
        async with self._rounds:
            started = time.monotonic()
            if not await self._client.worker.lead(ALERTER, self._keeper.worker_id, ttl=self._ttl):
                return _FOLLOW_SECONDS
            more = await self._gather(started)
            await self._observe(started)
            await self._delivery.start()
            # Slow rounds are run less often, so that they never take more than a tenth of the time.
            return 0.0 if more else max(_ROUND_SECONDS, 10 * (time.monotonic() - started))

    async def _gather(self, now: float) -> bool:
        alerts = self._client.worker.alerts
        deep = now >= self._deep_at
        more = await alerts.gather(deep=deep) >= AT_ONCE
        if deep and not more:
            self._deep_at = now + _DEEP_SECONDS
        if now >= self._prune_at:
            self._prune_at = now + _PRUNE_SECONDS
            await alerts.prune()
        return more

    async def _observe(self, now: float) -> None:
        if self._check is None or now < self._check_at:
            return
        self._check_at = now + self._timings.check
        try:
            found = await self._check()
        except Exception as error:  # noqa: BLE001 - deaths are told all the same
            if not self._check_failed:
                log.warning("findings are not told, the doctor fails: %s: %s", type(error).__name__, error)
            self._check_failed = True
            return
        self._check_failed = False
        await self._client.worker.alerts.observe([one for one in found if raises_alert(one)])
