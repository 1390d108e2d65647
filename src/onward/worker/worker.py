"""The worker: runs jobs until it is stopped or has nothing left to do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Self, Unpack

from onward.handlers.clients import Clients
from onward.handlers.handler import Handler
from onward.origin import APPLICATION
from onward.worker.description import describe
from onward.worker.ending import Ending
from onward.worker.options import WorkerOptions, WorkerSettings
from onward.worker.parts import Parts
from onward.worker.stopping import Stopping
from onward.worker.tally import Tally


class Worker:
    """Runs the jobs of some queues until it is stopped."""

    parts: Parts
    """Its loops and what they share; set by `run`."""

    def __init__(
        self, handlers: Mapping[str, Handler], clients: Clients, **options: Unpack[WorkerOptions]
    ) -> None:
        self._settings = WorkerSettings(**options)
        self._handlers = self._settings.served(handlers)
        self._clients = clients
        self._quiet = False
        self._stopping = Stopping()
        self._running: asyncio.Task[Tally] | None = None
        self.ready = asyncio.Event()
        self.tally = Tally()

    @property
    def worker_id(self) -> str | None:
        """The id under which the worker holds its jobs now; None before it is ready."""
        return self.parts.keeper.worker_id if self.ready.is_set() else None

    async def __aenter__(self) -> Self:
        """Start the worker in the background; return when it is ready."""
        self._running = asyncio.create_task(self.run(), name="onward worker")
        ready = asyncio.create_task(self.ready.wait())
        await asyncio.wait({self._running, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._running.done():
            self._running.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the worker, and wait until it has ended."""
        self.stop()
        if self._running is not None:
            await self._running

    def stop(self) -> None:
        """Stop the worker; each further call stops it faster. May be called from any thread.

        The first call ends claiming and lets running jobs finish within the grace. The second releases the
        running jobs now. The third abandons them.
        """
        self._stopping.request()

    def quiet(self, on: bool) -> None:
        """Stop claiming while running jobs end, or claim again; from any thread, even before the start."""
        self._quiet = on
        if self._stopping.loop is not None:
            self._stopping.loop.call_soon_threadsafe(self._apply_quiet)

    @property
    def running(self) -> int:
        """How many jobs run now."""
        return self.parts.buffer.running if self.ready.is_set() else 0

    def describe(self) -> str:
        """Return a text that lists the running jobs and where in its code each handler is."""
        if not self.ready.is_set():
            return "the worker has not started"
        return describe(
            str(self.worker_id), self.parts.executor.running.runs.values(), self.parts.buffer.length
        )

    async def run(self) -> Tally:
        """Work until stopped or drained, or until `max_jobs` or `max_time` is reached; return the counts."""
        self._stopping.begin()
        APPLICATION.set(self._clients.policies)
        self.parts = Parts(self._handlers, self._clients, self._settings, self._stopping, self.tally)
        self._apply_quiet()
        ending = Ending(self.parts, self._settings, self._stopping)
        loops: list[asyncio.Task[None]] = []
        try:
            loops = await self.parts.start()
            self.ready.set()
            await ending.wait(loops)
            await ending.finish(loops[0])
        finally:
            await ending.close(loops)
        return self.tally

    def _apply_quiet(self) -> None:
        self.parts.claimer.gate.set_quiet(self._quiet)
