"""One attempt of a job while it runs.

A handler is asked at most once to stop, and the first reason counts.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Literal

import msgspec

from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job
from onward.core.records.usage import Meters, Usage
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Cancelled, End, Failed, Outcome, Released
from onward.core.work.progress import Report
from onward.handlers.handler import Handler, Provider

Why = Literal["requested", "timeout", "deadline", "lease_lost", "shutdown"]

_metering = threading.Lock()

_REASONS: dict[Why, str] = {
    "requested": "cancelled on request",
    "timeout": "ran longer than its time-out",
    "deadline": "its deadline passed while it ran",
    "lease_lost": "this worker lost its lease",
    "shutdown": "the worker is shutting down",
}


class Completion(msgspec.Struct, eq=False):
    """The end that a handler writes in its own transaction; `sure` once the commit was confirmed.

    Without an end, the transaction was still open when the run was over, as in a thread that was abandoned.
    """

    end: End | None = None
    sure: bool = False
    spent: frozenset[str] = frozenset()


Ran = tuple[Job, Outcome, tuple[Usage, ...], Completion | None, Report | None, BaseException | None]
"""A run that is over: its job, outcome and usage, the end that its handler wrote itself, its last report, and
the exception that made it fail."""


class Running(msgspec.Struct, eq=False):
    """A job in its slot, and the reason why it must stop, if there is one."""

    job: Job
    handler: Handler
    task: asyncio.Task[Any] | None = None
    future: asyncio.Future[Any] | None = None
    coroutine: Any = None
    why: Why | None = None
    cancel_reason: str | None = None
    ends_at: float | None = None
    late: Why = "timeout"
    flag: threading.Event | None = None
    meters: Meters | None = None
    began_at: float | None = None
    waited: float = 0.0
    completion: Completion | None = None
    reported: Callable[[JobId], None] | None = None
    last_report: Report | None = None
    error: BaseException | None = None

    @property
    def provider(self) -> Provider | None:
        """The provider that the job type calls."""
        return self.handler.provider

    def cancel(self, why: Why, reason: str | None = None) -> bool:
        """Ask the handler to stop; return False if it was asked before."""
        if self.why is not None:
            return False
        self.why = why
        self.cancel_reason = reason or _REASONS[why]
        if self.flag is not None:
            self.flag.set()
        if self.handler.executor == "async" and self.task is not None:
            self.task.cancel()
        return True

    def uncancel(self) -> None:
        """Clear the cancellation of the slot's task, so that the slot goes on after its handler."""
        if self.task is not None:
            self.task.uncancel()

    def wait_cancelled(self, timeout: float) -> bool:
        """Block until the handler should stop; return False after `timeout` seconds."""
        if self.flag is None:
            self.flag = threading.Event()
            if self.why is not None:
                self.flag.set()
        return self.flag.wait(timeout)

    def meter(self, used: Usage) -> None:
        """Record what the handler has used; may be called from any thread of the handler."""
        with _metering:
            if self.meters is None:
                self.meters = Meters()
            self.meters.add(used)

    def report(self, report: Report) -> None:
        """Take the newest report of the handler; may be called from any thread of the handler."""
        self.last_report = report
        if self.reported is not None:
            self.reported(self.job.id)

    def time(self) -> None:
        """Meter the run itself: count one run, and start counting its seconds."""
        self.began_at = time.monotonic()
        self.meter(Usage("runs"))
        self.meter(Usage("seconds", 0.0))

    def beginning(self) -> None:
        """Record that the handler begins a transaction."""
        if self.completion is None:
            self.completion = Completion()

    def undone(self) -> None:
        """Record that the transaction was rolled back; a commit that is in doubt stays in doubt."""
        if self.completion is not None and self.completion.end is None:
            self.completion = None

    def completing(self, end: End) -> None:
        """Record that the handler is about to commit its own end."""
        self.completion = Completion(end)

    def completed(self, spent: frozenset[str]) -> None:
        """Record that the commit succeeded, and which orgs have spent their budget by it."""
        if self.completion is not None:
            self.completion.spent = spent
            self.completion.sure = True

    def usage(self) -> tuple[Usage, ...]:
        """Return what the run has used so far."""
        if self.began_at is not None:
            now = time.monotonic()
            self.meter(Usage("seconds", now - self.began_at))
            self.began_at = now
        with _metering:
            return () if self.meters is None else self.meters.read()

    def stack(self) -> list[str]:
        """Return where the handler waits, innermost last; empty if it runs in a thread or a process."""
        lines = []
        waiting = self.coroutine
        while (frame := getattr(waiting, "cr_frame", None)) is not None:
            lines.append(
                f'  File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}'
            )
            waiting = waiting.cr_await
        return lines

    def gave_way(self) -> Outcome:
        """Return the outcome of an attempt that stopped because it was asked to."""
        match self.why:
            case "timeout":
                return Failed(ErrorRecord("TimeoutError", self.cancel_reason, rule="job_timeout"))
            case "deadline":
                rule = "deadline_passed"
                late = ErrorRecord("TimeoutError", self.cancel_reason, reason=rule, rule=rule)
                return Failed(late, retryable=False)
            case "requested":
                return Cancelled(self.cancel_reason or "cancelled on request")
        # After a lost lease the write of this is refused, and the refusal is what gets recorded.
        return Released()


async def isolated(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Await a coroutine in context variables of its own, because the next job reuses the slot."""
    begun = begin(coroutine)
    return await begun if isinstance(begun, Waiting) else begun


def begin(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in context variables of its own; return its result, or a `Waiting` if it waits."""
    context = copy_context()
    try:
        awaited = context.run(coroutine.send, None)
    except StopIteration as done:
        # Many handlers never wait.
        return done.value
    return Waiting(context, coroutine, awaited)


class Waiting:
    """A coroutine that has begun to wait; awaiting this continues it within its context."""

    __slots__ = ("_awaited", "_context", "_coroutine")

    def __init__(self, context: Context, coroutine: Coroutine[Any, Any, Any], awaited: Any) -> None:
        self._context = context
        self._coroutine = coroutine
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        awaited = self._awaited
        step: Callable[[Any], Any]
        while True:
            try:
                value = yield awaited
            except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine
                step, value = self._coroutine.throw, error
            else:
                step = self._coroutine.send
            try:
                awaited = self._context.run(step, value)
            except StopIteration as done:
                return done.value
