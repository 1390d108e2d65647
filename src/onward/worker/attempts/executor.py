"""Runs claimed jobs in a fixed number of slots.

No error of a handler ends a slot.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import CoroutineType

from onward.clients.client import AsyncClient
from onward.core.jobs.job import Job
from onward.core.work.lifecycle import Outcome
from onward.handlers.clients import Clients
from onward.handlers.handler import Handler
from onward.handlers.hooks.around_hooks import AroundHook
from onward.worker.attempts.attempt import Ran
from onward.worker.attempts.attempt_runner import AttemptRunner
from onward.worker.attempts.authorization import Authorize, Guard
from onward.worker.attempts.breaker_gate import Breakers
from onward.worker.attempts.known_handlers import KnownHandlers
from onward.worker.attempts.running_jobs import RunningJobs
from onward.worker.attempts.thread_slots import Threads
from onward.worker.children.process_pool import ProcessPool
from onward.worker.claiming.buffer import Buffer
from onward.worker.hooks.around_attempts import Around
from onward.worker.hooks.open_resources import OpenResources

# A slot runs at most this many jobs, for at most this time, before other tasks of the loop run.
_AT_ONCE = 50
_LONGEST_SECONDS = 0.002


class Executor:
    """Slots that take jobs from the buffer, run their handlers, and report the outcomes to `ended`."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        clients: Clients,
        buffer: Buffer,
        ended: Callable[[Sequence[Ran]], None],
        *,
        client: AsyncClient,
        concurrency: int,
        patience: float,
        authorize: Authorize | None = None,
        around: Sequence[AroundHook] = (),
        breakers: Breakers | None = None,
    ) -> None:
        self._buffer, self._ended, self._breakers = buffer, ended, breakers
        self._concurrency = concurrency
        self._ran: list[Ran] = []
        self._idle: deque[asyncio.Future[None]] = deque()
        self._slots: list[asyncio.Task[None]] = []
        self._loop = asyncio.get_running_loop()
        self._threads = threads = Threads()
        self._processes = processes = ProcessPool(concurrency, url=clients.url, schema=clients.schema)
        self.running = RunningJobs(processes, patience=patience)
        self._resources = OpenResources(threads)
        self.known = KnownHandlers(handlers, client, threads=threads, errors=self.running.errors)
        self._attempts = AttemptRunner(
            self.known, clients, self.running, threads=threads, processes=processes,
            resources=self._resources, guard=Guard(clients.policies, authorize, threads, client),
            around=Around(around, threads) if around else None, breakers=breakers,
        )  # fmt: skip

    def start(self) -> None:
        """Open the slots."""
        self._slots = [
            asyncio.create_task(self._slot(), name=f"onward slot {number}")
            for number in range(self._concurrency)
        ]

    def wake(self) -> None:
        """Wake one idle slot for each job in the buffer."""
        for _ in range(min(len(self._idle), self._buffer.length)):
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def close(self, patience: float) -> None:
        """Close the slots, and cancel the handlers that still run; wait at most `patience` seconds."""
        self._attempts.closed = True
        for slot in self._slots:
            slot.cancel()
        if self._slots:
            # With a limit, because a handler may ignore its cancellation.
            await asyncio.wait(self._slots, timeout=patience)
        await self._resources.close()
        self._threads.close()
        await self._processes.close()

    async def _slot(self) -> None:
        task = asyncio.current_task()
        attempts = self._attempts
        until = 0.0
        # The run may consume the cancellation by `close` along with its own, so the slot checks here.
        while not attempts.closed:
            job = self._buffer.take()
            if job is None:
                self._report()
                waiter = self._loop.create_future()
                self._idle.append(waiter)
                await waiter
                until = 0.0
                continue
            until = until or time.monotonic() + _LONGEST_SECONDS
            try:
                outcome = attempts.start(job, task)
                if isinstance(outcome, CoroutineType):
                    self._report()
                    outcome = await outcome
                    until = 0.0
            finally:
                self._buffer.done(job.queue)
            self._note(job, outcome)
            if len(self._ran) >= _AT_ONCE or (until and time.monotonic() > until):
                # Else handlers that never wait would keep the loop from claiming and from writing results.
                self._report()
                await asyncio.sleep(0)
                until = 0.0
        self._report()

    def _note(self, job: Job, outcome: Outcome) -> None:
        """Keep a job's outcome until `_report`: reporting many at once costs less."""
        running = self.running
        usage = running.usage.pop(job.id, ()) if running.usage else ()
        completion = running.completions.pop(job.id, None) if running.completions else None
        report = running.reports.pop(job.id, None) if running.reports else None
        error = running.errors.pop(job.id, None) if running.errors else None
        self._ran.append((job, outcome, usage, completion, report, error))
        if self._breakers is not None:
            self._breakers.leave(job, outcome)

    def _report(self) -> None:
        """Report the runs that are over; called before every wait, so that no outcome is delayed by it."""
        if self._ran:
            ran, self._ran = self._ran, []
            self._ended(ran)
