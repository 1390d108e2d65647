"""Runs claimed jobs in a fixed number of slots, each by the executor of its job type.

No error of a handler ends a slot.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from inspect import isawaitable, iscoroutine
from types import CoroutineType
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from onward.core.failures.classify import classify, describe
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Cancelled, Failed, Outcome, Released, Succeeded
from onward.errors import InvalidJob
from onward.handlers.clients import Clients
from onward.handlers.context.context import Context
from onward.handlers.handler import Handler
from onward.logs import get_logger
from onward.origin import AMBIENT
from onward.worker.attempts.attempt import Ran, Running, Waiting, Why, begin, isolated
from onward.worker.attempts.authorization import Authorize, Guard
from onward.worker.attempts.breaker_gate import Breakers
from onward.worker.attempts.thread_slots import Threads
from onward.worker.children.process_pool import ProcessPool
from onward.worker.claiming.buffer import Buffer

log = get_logger("onward.worker")

# A slot runs at most this many jobs, for at most this time, before other tasks of the loop run.
_AT_ONCE = 50
_TURN_SECONDS = 0.002
_PATIENCE = 5.0
_UNKNOWN = "UnknownJobType"
_UNKNOWN_DELAY = timedelta(seconds=10)
_UNKNOWN_AFTER = timedelta(minutes=10)
_SUCCEEDED = Succeeded()

Rest: TypeAlias = "CoroutineType[Any, Any, Outcome]"
"""The rest of a run that has to wait."""


class Executor:
    """Slots that take jobs from the buffer, run their handlers, and report the outcomes to `ended`."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        clients: Clients,
        buffer: Buffer,
        ended: Callable[[Sequence[Ran]], None],
        *,
        concurrency: int,
        authorize: Authorize | None = None,
        breakers: Breakers | None = None,
        reported: Callable[[JobId], None] | None = None,
    ) -> None:
        self._handlers = handlers
        self._reported = reported
        self._breakers = breakers
        self._clients = clients
        self._buffer = buffer
        self._ended = ended
        self._ran: list[Ran] = []
        self._concurrency = concurrency
        self._closed = False
        self._idle: deque[asyncio.Future[None]] = deque()
        self._slots: list[asyncio.Task[None]] = []
        self._timed: set[Running] = set()
        self._threads = Threads()
        guard = Guard(clients.policies, authorize, self._threads)
        self._guard = None if guard.idle else guard
        self._processes = ProcessPool(concurrency, url=clients.url, schema=clients.schema)
        self._loop = asyncio.get_running_loop()
        self.runs: dict[str, Running] = {}
        self._unwanted: Mapping[str, str] = {}
        self._left: dict[str, Running] = {}
        self._meter_runs = clients.policies.settings.meter_runs

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

    def cancel(self, job_id: str, why: Why, reason: str | None = None) -> None:
        """Ask the handler of a running job to stop."""
        run = self.runs.get(job_id)
        if run is None or not run.cancel(why, reason):
            return
        if run.handler.executor == "process":
            self._processes.cancel(job_id)
        elif run.handler.executor == "thread" and why != "requested":
            # Python can't stop a thread. If the handler does not stop in time, the slot goes on without it.
            self._loop.call_later(_PATIENCE, self._abandon, run)

    def requested(self, reasons: Mapping[str, str]) -> None:
        """Cancel this worker's jobs whose cancellation was requested, also those that have not begun."""
        self._unwanted = reasons
        for job_id, reason in reasons.items():
            self.cancel(job_id, "requested", reason)

    def cancel_all(self, why: Why) -> None:
        """Ask every running handler to stop."""
        for job_id in list(self.runs):
            self.cancel(job_id, why)

    def abandon_all(self) -> None:
        """Abandon threads that were asked to stop and have not."""
        for run in list(self.runs.values()):
            if run.why is not None:
                self._abandon(run)

    def check_times(self) -> None:
        """Cancel runs that have reached their time-out or deadline."""
        now = time.monotonic()
        for run in [run for run in self._timed if run.ends_at is not None and run.ends_at <= now]:
            self._timed.discard(run)
            self.cancel(run.job.id, run.late)

    def blocking(self) -> str:
        """Return a text that names the job that blocks the event loop; called from another thread."""
        task = asyncio.current_task(self._loop)
        jobs = [
            f"job {run.job.job_type} {run.job.id}" for run in list(self.runs.values()) if run.task is task
        ]
        return jobs[0] if jobs else "something that is no job"

    async def close(self) -> None:
        """Close the slots, and cancel the handlers that still run."""
        self._closed = True
        for slot in self._slots:
            slot.cancel()
        if self._slots:
            # With a limit, because a handler may ignore its cancellation.
            await asyncio.wait(self._slots, timeout=_PATIENCE)
        self._threads.close()
        await self._processes.close()

    async def _slot(self) -> None:
        task = asyncio.current_task()
        until = 0.0
        # The run may consume the cancellation by `close` along with its own, so the slot checks here.
        while not self._closed:
            job = self._buffer.take()
            if job is None:
                self._tell()
                waiter = self._loop.create_future()
                self._idle.append(waiter)
                await waiter
                until = 0.0
                continue
            until = until or time.monotonic() + _TURN_SECONDS
            try:
                outcome = self._start(job, task)
                if isinstance(outcome, CoroutineType):
                    self._tell()
                    outcome = await outcome
                    until = 0.0
            finally:
                self._buffer.done(job.queue)
            self._note(job, outcome)
            if len(self._ran) >= _AT_ONCE or (until and time.monotonic() > until):
                # Else handlers that never wait would keep the loop from claiming and from writing results.
                self._tell()
                await asyncio.sleep(0)
                until = 0.0
        self._tell()

    def _note(self, job: Job, outcome: Outcome) -> None:
        """Keep a job's outcome until `_tell`: reporting many at once costs less."""
        run = self._left.pop(job.id, None) if self._left else None
        if run is None:
            self._ran.append((job, outcome, (), None, None))
        else:
            self._ran.append((job, outcome, run.usage(), run.completion, run.last_report))
        if self._breakers is not None:
            self._breakers.leave(job, outcome)

    def _tell(self) -> None:
        """Report the runs that are over; called before every wait, so that no outcome is delayed by it."""
        if self._ran:
            ran, self._ran = self._ran, []
            self._ended(ran)

    def _start(self, job: Job, task: asyncio.Task[Any] | None) -> Outcome | Rest:
        """Run a job to its end, or to its first wait: then return the rest, which the caller awaits."""
        handler = self._handlers.get(job.job_type)
        if handler is None:
            return unknown(job)
        if job.id in self._unwanted:
            return Cancelled(self._unwanted[job.id])
        try:
            arguments = handler.arguments(job.payload)
        except InvalidJob as error:
            rule = "invalid_arguments"
            return Failed(replace(describe(error), rule=rule, reason=rule), retryable=False)
        run = Running(job, handler, task, reported=self._reported)
        self.runs[job.id] = run
        if handler.executor != "async" or self._guard is not None or self._breakers is not None:
            return cast("Rest", self._run(run, arguments))
        try:
            self._enter(run)
            begun = begin(self._coroutine(run, arguments))
            if isinstance(begun, Waiting):
                return cast("Rest", self._rest_of(run, begun))
            outcome = self._judged(job, begun)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, SystemExit too
            outcome = self._raised(run, error)
        self._over(run)
        return outcome

    async def _rest_of(self, run: Running, begun: Waiting) -> Outcome:
        try:
            return self._judged(run.job, await begun)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, SystemExit too
            return self._raised(run, error)
        finally:
            self._over(run)

    async def _run(self, run: Running, arguments: dict[str, Any]) -> Outcome:
        """Run a job that may have to wait before it begins, or that runs in a thread or a process."""
        try:
            if self._breakers is not None and (held := await self._breakers.enter(run)) is not None:
                return held
            self._enter(run)
            if self._guard is None:
                return self._judged(run.job, await self._begin(run, arguments))
            if (ended := await self._guard.refusal(run.job)) is not None:
                return ended
            return self._guard.judged(run, self._judged(run.job, await self._begin(run, arguments)))
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, SystemExit too
            return self._raised(run, error)
        finally:
            self._over(run)

    def _raised(self, run: Running, error: BaseException) -> Outcome:
        match error:
            case asyncio.CancelledError():
                return self._cancelled(run, error)
            case Cancelled():
                return run.gave_way() if run.why else error
        late = run.why in {"timeout", "deadline"}
        return run.gave_way() if late else self._classified(run.job, error)

    def _cancelled(self, run: Running, error: asyncio.CancelledError) -> Outcome:
        if run.why is not None:
            return run.gave_way()
        if self._closed or run.task is None or run.task.cancelling():
            raise error
        # This slot was not cancelled: the handler awaited something that was.
        return self._classified(run.job, error)

    def _over(self, run: Running) -> None:
        job_id = run.job.id
        if run.why is not None:
            # Also if the handler turned its cancellation into another outcome, else the slot's next job
            # would seem to be cancelled.
            run.uncancel()
        self.runs.pop(job_id, None)
        if run.ends_at is not None:
            self._timed.discard(run)
        if run.meters is not None or run.completion is not None or run.last_report is not None:
            self._left[job_id] = run

    def _judged(self, job: Job, result: Any) -> Outcome:
        return _SUCCEEDED if result is None else self._classified(job, result)

    def _classified(self, job: Job, end: Any) -> Outcome:
        if not isinstance(end, BaseException):
            return _not_awaited(end) if isawaitable(end) else Succeeded(end)
        policies = self._clients.policies
        return classify(
            end,
            policies.settings.redact.hider(job.payload),
            policies.registry.classification,
            datetime.now(UTC),
        )

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

    def _enter(self, run: Running) -> None:
        """Start a run's time-out, and make its job the origin of what is enqueued from here on."""
        job = run.job
        if job.timeout_micros is not None or job.deadline is not None:
            self._time(run)
        # What the handler enqueues inherits from its job: the handler's context is a copy of this one.
        AMBIENT.set(job)

    def _time(self, run: Running) -> None:
        """Record when a run must stop; its deadline is counted from its claim by the database's clock."""
        job = run.job
        seconds: list[tuple[float, Why]] = []
        if job.timeout_micros is not None:
            seconds.append((job.timeout_micros / 1e6, "timeout"))
        if job.deadline is not None:
            seconds.append(((job.deadline - _claimed_at(job)).total_seconds() - run.waited, "deadline"))
        left, run.late = min(seconds)
        run.ends_at = time.monotonic() + left
        self._timed.add(run)
        if left <= 0:
            run.why, run.cancel_reason = run.late, f"its {run.late} passed before it ran"

    def _abandon(self, run: Running) -> None:
        """Free the slot of a thread that does not stop; the thread runs on without it."""
        if run.future is not None and not run.future.done():
            log.warning(
                "job %s %s ignores that it should give way; its thread is left to itself",
                run.job.job_type,
                run.job.id,
            )
            run.future.set_exception(Cancelled(run.cancel_reason or "cancelled"))


def _not_awaited(result: Awaitable[Any]) -> Outcome:
    """Return the failure of a handler that returned an awaitable: it has done nothing yet."""
    if iscoroutine(result):
        result.close()
    message = f"the handler returned a {type(result).__name__} that nobody awaited; write `return await …`"
    return Failed(ErrorRecord("NotAwaited", message, rule="not_awaited"), retryable=False)


def _claimed_at(job: Job) -> datetime:
    """Return the instant of the claim, by the database's clock."""
    return job.started_at or job.created_at


def unknown(job: Job) -> Outcome:
    """Return the outcome of a job without a handler here.

    It is released, because another version of the program may know it, and dies after `_UNKNOWN_AFTER`.
    """
    now = _claimed_at(job).timestamp()
    last = job.error
    since = last.detail.get("since") if last is not None and last.error_class == _UNKNOWN else None
    if not isinstance(since, int | float):
        since = now
    message = f"no handler here for job type {job.job_type!r}; deploy one, or cancel the job"
    error = ErrorRecord(_UNKNOWN, message, rule="unknown_job_type", detail={"since": since})
    if now - since >= _UNKNOWN_AFTER.total_seconds():
        return Failed(replace(error, reason="unknown_job_type"), retryable=False)
    return Released(_UNKNOWN_DELAY, error)
