"""Runs one attempt of a job, from its arguments to its outcome.

No error of a handler escapes: each becomes an outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any, cast

from onward.core.jobs.job import Job
from onward.core.work.lifecycle import Cancelled, Failed, Outcome, RateLimited, Succeeded
from onward.errors import InvalidJob
from onward.handlers.clients import Clients
from onward.handlers.context.context import Context
from onward.origin import AMBIENT
from onward.origin_threads import follow_origins
from onward.worker.attempts.attempt import Running, Waiting, begin, isolated
from onward.worker.attempts.authorization import Guard
from onward.worker.attempts.breaker_gate import Breakers
from onward.worker.attempts.handler_frames import without_worker_frames
from onward.worker.attempts.known_handlers import KnownHandlers, Rest
from onward.worker.attempts.outcomes import invalid_arguments, outcome_of
from onward.worker.attempts.running_jobs import RunningJobs
from onward.worker.attempts.thread_slots import Threads
from onward.worker.children.process_pool import ProcessPool
from onward.worker.hooks.around_attempts import Around, run_in_thread
from onward.worker.hooks.open_resources import OpenResources

_SUCCEEDED = Succeeded()


class AttemptRunner:
    """Starts the handler of a job in the event loop, in a thread or in a process."""

    def __init__(
        self,
        known: KnownHandlers,
        clients: Clients,
        running: RunningJobs,
        *,
        threads: Threads,
        processes: ProcessPool,
        resources: OpenResources,
        guard: Guard,
        around: Around | None,
        breakers: Breakers | None,
    ) -> None:
        self._known = known
        self._clients = clients
        self._running = running
        self._threads = threads
        self._processes = processes
        self._guard = None if guard.idle else guard
        self._around = around
        self._resources = resources
        self._breakers = breakers
        # Most applications have none of these, and their async handlers run without a coroutine around them.
        self._plain = self._guard is None and around is None and breakers is None
        self._meter_runs = clients.policies.settings.meter_runs
        self.closed = False
        follow_origins()

    def start(self, job: Job, task: asyncio.Task[Any] | None) -> Outcome | Rest:
        """Run a job to its end, or to its first wait: then return the rest, which the caller awaits."""
        handler = self._known.runnable.get(job.job_type)
        if handler is None:
            return self._known.otherwise(job, partial(self.start, job, task))
        running = self._running
        if job.id in running.cancel_requests:
            return Cancelled(running.cancel_requests[job.id])
        try:
            arguments = handler.arguments(job.payload)
        except InvalidJob as error:
            running.errors[job.id] = error
            return invalid_arguments(error)
        run = Running(job, handler, task, reported=running.reported)
        running.runs[job.id] = run
        if handler.executor != "async" or handler.resources or not self._plain:
            return cast("Rest", self._run(run, arguments))
        try:
            self._enter(run)
            begun = begin(self._coroutine(run, arguments))
            if isinstance(begun, Waiting):
                return cast("Rest", self._rest_of(run, begun))
            outcome = self._returned(job, begun)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, SystemExit too
            outcome = self._raised(run, error)
        running.remove(run)
        return outcome

    async def _rest_of(self, run: Running, begun: Waiting) -> Outcome:
        try:
            return self._returned(run.job, await begun)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, SystemExit too
            return self._raised(run, error)
        finally:
            self._running.remove(run)

    async def _run(self, run: Running, arguments: dict[str, Any]) -> Outcome:
        """Run a job that may have to wait before it begins, or that runs in a thread or a process."""
        try:
            if self._breakers is not None and (held := await self._breakers.enter(run)) is not None:
                return held
            self._enter(run)
            if self._guard is not None and (refusal := await self._guard.refusal(run.job)) is not None:
                return refusal
            around = self._around
            if around is None or not around.concerns(run.job):
                return await self._concluded(run, await self._call(run, arguments))
            return cast("Outcome", await isolated(self._within(around, run, arguments)))
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, SystemExit too
            return self._raised(run, error)
        finally:
            self._running.remove(run)

    async def _within(self, around: Around, run: Running, arguments: dict[str, Any]) -> Outcome:
        """Run an attempt within the application's functions around it."""
        judge = partial(self._raised, run)
        inner = around.in_thread(run.handler)

        async def attempt() -> Outcome:
            if not inner:
                return await self._concluded(run, await self._call(run, arguments))
            await self._resources.supply(run, arguments)
            self._admit(run, arguments)
            call = partial(self._call_here, run, arguments)
            parameters = {"hooks": inner, "job": run.job, "attempt": call, "judge": judge}
            run.future = self._threads.call(run_in_thread, parameters)
            return cast("Outcome", await run.future)

        return await around.run(run.job, run.handler, attempt, judge)

    def _call_here(self, run: Running, arguments: dict[str, Any]) -> Outcome:
        """Call a handler in the current thread, within the functions around it, and return its outcome."""
        outcome = self._returned(run.job, run.handler.function(**arguments))
        return outcome if self._guard is None else self._guard.judged_from_thread(run, outcome)

    async def _concluded(self, run: Running, result: Any) -> Outcome:
        """Return the outcome for what a handler returned; a success may lack what its category requires."""
        outcome = self._returned(run.job, result)
        return outcome if self._guard is None else await self._guard.judged(run, outcome)

    def _returned(self, job: Job, result: Any) -> Outcome:
        return _SUCCEEDED if result is None else outcome_of(result, job, self._clients.policies)

    def _raised(self, run: Running, error: BaseException) -> Outcome:
        # A function around the attempt may replace an earlier error.
        run.error = None
        match error:
            case asyncio.CancelledError() if run.why is not None:
                return _gave_way(run, error)
            case asyncio.CancelledError() if self.closed or run.task is None or run.task.cancelling():
                raise error
            # Any other CancelledError is the handler's: it awaited something that was cancelled.
            case Cancelled():
                return _gave_way(run, error) if run.why else error
        error = without_worker_frames(error)
        if run.why in {"timeout", "deadline"}:
            return _gave_way(run, error)
        outcome = outcome_of(error, run.job, self._clients.policies)
        if isinstance(outcome, Failed | RateLimited):
            run.error = error
        return outcome

    def _enter(self, run: Running) -> None:
        """Start a run's time-out, and make its job the origin of what is enqueued from here on."""
        job = run.job
        if job.timeout_micros is not None or job.deadline is not None:
            self._running.limit_time(run)
        # What the handler enqueues inherits from its job: the handler's context is a copy of this one.
        AMBIENT.set(job)

    async def _call(self, run: Running, arguments: dict[str, Any]) -> Any:
        if run.handler.resources:
            await self._resources.supply(run, arguments)
        return await self._begin(run, arguments)

    def _begin(self, run: Running, arguments: dict[str, Any]) -> Awaitable[Any]:
        handler = run.handler
        if handler.executor == "async":
            return isolated(self._coroutine(run, arguments))
        self._admit(run, arguments)
        if handler.executor == "process":
            return self._processes.run(handler, run, timeout=None)
        run.future = self._threads.call(handler.function, arguments)
        return run.future

    def _coroutine(self, run: Running, arguments: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        self._admit(run, arguments)
        coroutine: Coroutine[Any, Any, Any] = run.handler.function(**arguments)
        run.coroutine = coroutine
        return coroutine

    def _admit(self, run: Running, arguments: dict[str, Any]) -> None:
        """Start metering and add the Context to the arguments; raise Cancelled if the run must not begin."""
        if run.why is not None:
            raise Cancelled
        if self._meter_runs:
            run.time()
        handler = run.handler
        # A child process makes its own Context.
        if handler.context is not None and handler.executor != "process":
            arguments[handler.context] = Context(run, self._clients)


def _gave_way(run: Running, error: BaseException) -> Outcome:
    outcome = run.gave_way()
    if isinstance(outcome, Failed):
        # The traceback shows where the handler was when its time was over.
        where = without_worker_frames(error).__traceback__
        run.error = TimeoutError(run.cancel_reason).with_traceback(where)
    return outcome
