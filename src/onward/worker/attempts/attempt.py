"""One attempt of a job while it runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Literal

import msgspec

from onward.core.jobs.job import Job
from onward.core.records.usage import Meters, Usage
from onward.core.work.lifecycle import Cancelled, End, Failed, Outcome, Released
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
    """The end that a handler writes in its own transaction; not `sure` until its commit was answered.

    Without an end, the transaction was open when the run was over, as that of a thread that was given up.
    """

    end: End | None = None
    sure: bool = False
    spent: frozenset[str] = frozenset()


Ran = tuple[Job, Outcome, tuple[Usage, ...], Completion | None]
"""A run that is over: what it came to, what it used, and the end that its handler wrote itself."""


class Running(msgspec.Struct, eq=False):
    """A job in its slot; whatever makes it give way is told to it once, and the first reason counts."""

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
    artifacts: int = 0
    meters: Meters | None = None
    began_at: float | None = None
    waited: float = 0.0
    completion: Completion | None = None

    @property
    def provider(self) -> Provider | None:
        """Say whom the job type calls."""
        return self.handler.provider

    def cancel(self, why: Why, reason: str | None = None) -> bool:
        """Ask the handler to give way; False if it was asked before."""
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
        """Let the slot go on after its handler was cancelled."""
        if self.task is not None:
            self.task.uncancel()

    def wait_cancelled(self, timeout: float) -> bool:
        """Block until the handler should give way; False when the time is over."""
        if self.flag is None:
            self.flag = threading.Event()
            if self.why is not None:
                self.flag.set()
        return self.flag.wait(timeout)

    def meter(self, used: Usage) -> None:
        """Take note of what the handler has used; from any thread, because a handler may have some."""
        with _metering:
            if self.meters is None:
                self.meters = Meters()
            self.meters.add(used)

    def time(self) -> None:
        """Have the run itself metered: that there was one, and its seconds."""
        self.began_at = time.monotonic()
        self.meter(Usage("runs"))
        self.meter(Usage("seconds", 0.0))

    def beginning(self) -> None:
        """Learn that the handler begins a transaction."""
        if self.completion is None:
            self.completion = Completion()

    def undone(self) -> None:
        """Learn that it was rolled back; what is in doubt stays so."""
        if self.completion is not None and self.completion.end is None:
            self.completion = None

    def completing(self, end: End) -> None:
        """Learn that the handler is about to commit its own end."""
        self.completion = Completion(end)

    def completed(self, spent: frozenset[str]) -> None:
        """Learn that it has."""
        if self.completion is not None:
            self.completion.spent = spent
            self.completion.sure = True

    def usage(self) -> tuple[Usage, ...]:
        """Give what the run has used so far."""
        if self.began_at is not None:
            now = time.monotonic()
            self.meter(Usage("seconds", now - self.began_at))
            self.began_at = now
        with _metering:
            return () if self.meters is None else self.meters.read()

    def stack(self) -> list[str]:
        """Show where the handler waits, innermost last; empty for one that runs in a thread or a process."""
        lines = []
        waiting = self.coroutine
        while (frame := getattr(waiting, "cr_frame", None)) is not None:
            lines.append(
                f'  File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}'
            )
            waiting = waiting.cr_await
        return lines

    def gave_way(self) -> Outcome:
        """Give the outcome of an attempt that ended because it was asked to."""
        match self.why:
            case "timeout":
                return Failed({"class": "TimeoutError", "message": self.cancel_reason, "rule": "job_timeout"})
            case "deadline":
                late = {"rule": "deadline_passed", "reason": "deadline_passed"}
                return Failed(
                    {"class": "TimeoutError", "message": self.cancel_reason, **late}, retryable=False
                )
            case "requested":
                return Cancelled(self.cancel_reason or "cancelled on request")
        # Of a lost lease this is refused, and the refusal is what gets recorded.
        return Released()


async def isolated(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Await a coroutine in context variables of its own: slots are reused, what a job sets is its own."""
    begun = begin(coroutine)
    return await begun if isinstance(begun, Waiting) else begun


def begin(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in context variables of its own, to its end or to its first wait (then a `Waiting`)."""
    context = copy_context()
    try:
        awaited = context.run(coroutine.send, None)
    except StopIteration as done:
        # It never waited: many handlers do not.
        return done.value
    return Waiting(context, coroutine, awaited)


class Waiting:
    """A coroutine that has begun to wait, driven on within its context."""

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
