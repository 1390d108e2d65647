"""Shutting a worker down: when it ends, what happens to its jobs, and how its parts are closed."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from onward.core.inputs.duration import duration
from onward.errors import StoreUnreachable
from onward.logs import get_logger
from onward.worker.description import Kind
from onward.worker.hooks.hook_calls import call_stop_hooks
from onward.worker.options import WorkerSettings
from onward.worker.parts import Parts
from onward.worker.stopping import Stopping

log = get_logger("onward.worker")

# How long handlers may take to stop before their jobs are given back without them; a tick is soon over.
_STOP_SECONDS: Mapping[Kind, float] = {"worker": 2.0, "tick": 0.2}
_WRITE_SECONDS = 2.0
_CLOSE_SECONDS = 0.5
_ALERT_SECONDS = 5.0


class Ending:
    """Waits until a worker is over, gives back what still runs after the grace, and closes its parts."""

    def __init__(self, parts: Parts, settings: WorkerSettings, stopping: Stopping) -> None:
        self._parts = parts
        self._settings = settings
        self._stopping = stopping
        self._stop_seconds = _STOP_SECONDS[settings.kind]
        most = settings.max_time
        seconds = math.inf if most is None else duration("max_time", most).total_seconds()
        self._over_at = time.monotonic() + seconds

    async def wait(self, loops: Sequence[asyncio.Task[None]]) -> None:
        """Wait until the worker should end.

        Re-raise the error of a failed loop, without which jobs would wait unnoticed.
        """
        over = [asyncio.create_task(self._stopping.finish.wait()), asyncio.create_task(self._worked_off())]
        seconds = None if self._settings.max_time is None else _left(self._over_at)
        try:
            done, _ = await asyncio.wait(
                {*over, *loops[1:]}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
        finally:
            for task in over:
                task.cancel()

    async def _worked_off(self) -> None:
        """Wait until no work is left; without `drain` and `max_jobs`, wait until the worker is stopped."""
        if not self._settings.drain and self._settings.max_jobs is None:
            await self._stopping.finish.wait()
        parts, claimer = self._parts, self._parts.claimer
        while True:
            await claimer.claims.dry.wait()
            claims = claimer.claims.count
            await parts.held.resting.wait()
            await parts.finisher.emptied()
            # Query twice: the second query finds a job that changed state during the first.
            if claimer.plan.spent or not (await self._more(claims) or await self._more(claims)):
                return

    async def _more(self, claims: int) -> bool:
        return await self._parts.claimer.remaining.exists(claims, self._parts.admitter.more)

    async def finish(self, claiming: asyncio.Task[None]) -> None:
        """Claim no more, let running jobs end within the grace, release the rest; the lease is kept."""
        parts, stopping = self._parts, self._stopping
        until = time.monotonic() + duration("grace", self._settings.grace).total_seconds()
        parts.claimer.close()
        if parts.breakers is not None:
            parts.breakers.give_back()
        # Not less: the jobs of a claim whose answer comes later would be rescued, which burns an attempt.
        await asyncio.wait({claiming}, timeout=max(_left(until), self._stop_seconds))
        parts.held.release()
        resting = parts.held.resting
        await _wait_for(resting, _left(until), stopping.release)
        if not resting.is_set():
            if not stopping.release.is_set():
                log.warning("releasing what still runs after the grace (jobs: %s)", parts.buffer.running)
            parts.executor.running.cancel_all("shutdown")
            await _wait_for(resting, self._stop_seconds, stopping.abandon)
            await self._abandon()
        if not stopping.abandon.is_set():
            await self._write(max(_left(until), _WRITE_SECONDS))

    async def _abandon(self) -> None:
        """Release the jobs of handlers that were cancelled and run on; their results will be refused."""
        parts = self._parts
        if stuck := parts.executor.running.abandon_all():
            parts.finisher.add_all(stuck)
            await asyncio.sleep(0)
        else:
            await _wait_for(parts.held.resting, self._stop_seconds, self._stopping.abandon)

    async def _write(self, seconds: float) -> None:
        """Wait for the last writes; raise StoreUnreachable if the database is away."""
        parts = self._parts
        written = asyncio.ensure_future(parts.finisher.emptied())
        await asyncio.wait({written}, timeout=seconds)
        if not written.done():
            written.cancel()
            raise StoreUnreachable(
                "stopped before all results could be written; their jobs will be rescued and run again"
            )
        if parts.outage.lasts:
            ready = asyncio.ensure_future(parts.client.worker.ready_queues())
            await asyncio.wait({ready}, timeout=_WRITE_SECONDS)
            if not ready.done() or ready.exception() is not None:
                ready.cancel()
                raise StoreUnreachable("stopped while its database was away; nothing was left to write")
        elif self._settings.drain and (left := _left(self._over_at)):
            await parts.alerter.finish(min(_ALERT_SECONDS, left))

    async def close(self, loops: Sequence[asyncio.Task[None]]) -> None:
        """End the loops, and close the parts."""
        # Cancel each loop twice: after the first, psycopg asks the server to cancel the query and waits for
        # its answer; the second ends that wait.
        for _ in range(2 if loops else 0):
            for loop in loops:
                loop.cancel()
            await asyncio.wait(loops, timeout=_CLOSE_SECONDS)
        for loop in loops:
            if loop.done() and not loop.cancelled():
                loop.exception()
        parts = self._parts
        if loops and not self._settings.drain and not self._stopping.abandon.is_set():
            await call_stop_hooks(self._settings.on_stop)
        await parts.executor.close(min(self._settings.timings.stop, self._stop_seconds))
        if parts.breakers is not None:
            await parts.breakers.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await parts.wakeups.close()
        await parts.keeper.close(retire=not parts.outage.lasts)
        await parts.client.close()


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())


async def _wait_for(event: asyncio.Event, seconds: float, unless: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(unless.wait())]
    await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
