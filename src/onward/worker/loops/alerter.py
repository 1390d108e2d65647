"""The alerter: finds dead jobs and findings, and sends them to each sink; no error of a sink reaches a job.

Each message is stored before it is sent, so the next leader sends what a worker that died has left.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta
from functools import partial

from onward.clients.client import AsyncClient
from onward.core.failures.alert import Sink, error_text, is_told
from onward.core.upkeep.diagnosis import Finding
from onward.logs import get_logger
from onward.operations.failures.alerts import AT_ONCE, Send
from onward.worker.attempts.thread_slots import Threads
from onward.worker.loops.lease_keeper import Keeper
from onward.worker.outage import Outage

ALERTER = "alerter"
"""The lead that a worker must have to send alerts."""

log = get_logger("onward.worker")

_ROUND_SECONDS = 1.0
_FOLLOW_SECONDS = 2.0
_DEEP_SECONDS = 60.0
_PRUNE_SECONDS = 600.0
_CHECK_SECONDS = 30.0
_LEAD = timedelta(seconds=6)
_LIMIT_SECONDS = 30.0
_LAST_WORDS = 0.5
# Longer than a sink may take, so that no other worker takes a message that is under way.
_HOLD = timedelta(seconds=40)
_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=10), timedelta(minutes=10)
_MOST_TRIES = 20

Check = Callable[[], Awaitable[Collection[Finding]]]


def back_off(tries: int) -> timedelta | None:
    """Return how long to wait after a failed send; None when the message is given up."""
    if tries >= _MOST_TRIES:
        return None
    return min(_FIRST_WAIT * 2.0 ** (tries - 1), _LONGEST_WAIT)


class Alerter:
    """Sends alerts while this worker leads; each sink has a thread, so one that hangs delays no other."""

    def __init__(
        self,
        client: AsyncClient,
        keeper: Keeper,
        outage: Outage,
        *,
        check: Check | None = None,
    ) -> None:
        self._client = client
        self._keeper = keeper
        self._outage = outage
        self._check = check
        self._sinks: dict[str, Sink] = {sink.name: sink for sink in client.rules.alerts}
        self._threads = Threads()
        self._ttl = min(_LEAD, keeper.lease)
        self._rounds = asyncio.Lock()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._stuck: dict[str, asyncio.Future[object]] = {}
        self._resting: dict[str, float] = {}
        self._check_failed = self._leaving = False
        now = time.monotonic()
        self._deep_at = now
        self._prune_at = now + _PRUNE_SECONDS
        self._check_at = now + _CHECK_SECONDS

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
            await self._leave()

    async def finish(self, seconds: float) -> None:
        """Do the pending rounds and wait for the sinks, at most `seconds`; for a worker that drains."""
        if not self._sinks:
            return
        until = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                while not await self._round() and time.monotonic() < until:
                    pass
        except Exception as error:  # noqa: BLE001 - it is there for the next worker
            log.warning("alerts were not sent, and are left to the next worker: %s", type(error).__name__)
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=max(0.0, until - time.monotonic()))

    async def _leave(self) -> None:
        """Stop sending; a message that is under way is taken again when its hold is over."""
        self._leaving = True
        self._threads.close()
        if not self._under_way:
            return
        # Wait a moment: a message that was just sent must be recorded, else it would be sent again.
        _, late = await asyncio.wait(list(self._under_way.values()), timeout=_LAST_WORDS)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_LAST_WORDS)

    async def _round(self) -> float:
        """Find new alerts and begin to send them; return the seconds until the next round."""
        async with self._rounds:
            started = time.monotonic()
            if not await self._client.lead(ALERTER, self._keeper.worker_id, ttl=self._ttl):
                return _FOLLOW_SECONDS
            more = await self._gather(started)
            await self._observe(started)
            await self._send()
            # Slow rounds are run less often, so that they never take more than a tenth of the time.
            return 0.0 if more else max(_ROUND_SECONDS, 10 * (time.monotonic() - started))

    async def _gather(self, now: float) -> bool:
        alerts = self._client.alerts
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
        self._check_at = now + _CHECK_SECONDS
        try:
            found = await self._check()
        except Exception as error:  # noqa: BLE001 - deaths are told all the same
            if not self._check_failed:
                log.warning("findings are not told, the doctor fails: %s: %s", type(error).__name__, error)
            self._check_failed = True
            return
        self._check_failed = False
        await self._client.alerts.observe([one for one in found if is_told(one)])

    async def _send(self) -> None:
        for name in await self._client.alerts.prepare(self._sinks):
            if name in self._under_way or time.monotonic() < self._resting.get(name, 0.0):
                continue
            if name in self._stuck and not self._stuck[name].done():
                continue
            task = asyncio.create_task(self._serve(self._sinks[name]), name=f"onward alerts {name}")
            self._under_way[name] = task
            task.add_done_callback(partial(self._served, name))

    def _served(self, name: str, _task: asyncio.Task[None]) -> None:
        self._under_way.pop(name, None)

    async def _serve(self, sink: Sink) -> None:
        """Send a sink its waiting messages, until there are no more or it fails."""
        alerts = self._client.alerts
        try:
            while not self._leaving and (send := await alerts.take(sink.name, hold=_HOLD)) is not None:
                error = await self._try(sink, send)
                if error is None:
                    await alerts.settle(send)
                    self._works(sink.name)
                else:
                    await self._put_off(send, error)
                    return
        except Exception as error:  # noqa: BLE001 - the message is there still
            self._outage.pause("alerter", error)

    async def _try(self, sink: Sink, send: Send) -> str | None:
        """Send one message; return why that failed, or None."""
        sent = self._threads.call(partial(sink.send, send.alert), {})
        done, _ = await asyncio.wait({sent}, timeout=_LIMIT_SECONDS)
        if not done:
            self._stuck[sink.name] = sent
            sent.add_done_callback(lambda late: late.cancelled() or late.exception())
            return f"it did not come back within {_LIMIT_SECONDS:g} s"
        error = sent.exception()
        return None if error is None else error_text(error, self._client.rules.redact)

    async def _put_off(self, send: Send, error: str) -> None:
        wait = back_off(send.tries)
        await self._client.alerts.settle(send, error, wait=wait)
        if send.sink not in self._resting:
            log.warning("alert sink %s fails, and is tried again for a while: %s", send.sink, error)
        # The whole sink rests, because its other messages would fail too, each after its full time.
        self._resting[send.sink] = time.monotonic() + (wait or _LONGEST_WAIT).total_seconds()

    def _works(self, name: str) -> None:
        if self._resting.pop(name, None) is not None:
            log.warning("alert sink %s works again", name)
