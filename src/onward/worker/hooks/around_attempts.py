"""Runs the application's functions around an attempt: the first registered is outermost.

Each is a generator that yields once, where the attempt runs. An error that it raises counts as if the handler
had raised it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from typing import cast

from onward.core.jobs.job import Job
from onward.core.policy.built_in import BUILT_IN
from onward.core.work.lifecycle import Outcome
from onward.handlers.handler import Handler
from onward.handlers.hooks.around_hooks import AroundHook
from onward.worker.attempts.thread_slots import Threads

Judge = Callable[[BaseException], Outcome]
"""Returns the outcome for an error, or raises it again if the worker itself cancels the attempt."""


class HookBroken(Exception):
    """A function around attempts did not yield exactly once."""


class Around:
    """The functions around the attempts of a worker."""

    def __init__(self, hooks: Sequence[AroundHook], threads: Threads) -> None:
        self._hooks = list(hooks)
        self._threads = threads
        # The sync functions after the last async one can share the thread of a handler.
        last_async = max((at for at, hook in enumerate(self._hooks, 1) if hook.is_async), default=0)
        self._outer, self._inner = self._hooks[:last_async], self._hooks[last_async:]

    def concerns(self, job: Job) -> bool:
        """Whether there are functions to run around an attempt of this job."""
        return bool(self._hooks) and job.job_type not in BUILT_IN

    def in_thread(self, handler: Handler) -> Sequence[AroundHook]:
        """Return the functions that run in the thread of this handler."""
        return self._inner if handler.executor == "thread" else ()

    async def run(
        self, job: Job, handler: Handler, attempt: Callable[[], Awaitable[Outcome]], judge: Judge
    ) -> Outcome:
        """Run an attempt within the functions that do not run in its thread; return its outcome."""
        entered: list[_Entered] = []
        try:
            try:
                for hook in self._outer if handler.executor == "thread" else self._hooks:
                    # Noted one by one, because an error of the next must leave those before it.
                    entered.append(await self._enter(hook, job))  # noqa: PERF401
                outcome = await attempt()
            except BaseException as error:  # noqa: BLE001 - the function may raise what a handler may
                outcome = judge(error)
            while entered:
                try:
                    await entered.pop().leave(outcome)
                except BaseException as error:  # noqa: BLE001 - the function may raise what a handler may
                    outcome = judge(error)
            return outcome
        finally:
            for left in reversed(entered):
                await left.close()

    async def _enter(self, hook: AroundHook, job: Job) -> _Entered:
        if not hook.is_async:
            entered = _InThread(
                hook, cast("Generator[None, Outcome, None]", hook.function(job)), self._threads
            )
            await entered.enter()
            return entered
        waiting = _OnLoop(hook, cast("AsyncGenerator[None, Outcome]", hook.function(job)))
        await waiting.enter()
        return waiting


class _OnLoop:
    """An async function around an attempt."""

    def __init__(self, hook: AroundHook, steps: AsyncGenerator[None, Outcome]) -> None:
        self._hook, self._steps = hook, steps

    async def enter(self) -> None:
        try:
            await anext(self._steps)
        except StopAsyncIteration:
            raise _no_yield(self._hook) from None

    async def leave(self, outcome: Outcome) -> None:
        try:
            await self._steps.asend(outcome)
        except StopAsyncIteration:
            return
        await self.close()
        raise _second_yield(self._hook)

    async def close(self) -> None:
        await self._steps.aclose()


class _InThread:
    """A sync function around an attempt that does not run in its thread."""

    def __init__(self, hook: AroundHook, steps: Generator[None, Outcome, None], threads: Threads) -> None:
        self._hook, self._steps, self._threads = hook, steps, threads

    async def enter(self) -> None:
        await self._threads.call(_enter, {"hook": self._hook, "steps": self._steps})

    async def leave(self, outcome: Outcome) -> None:
        await self._threads.call(_leave, {"hook": self._hook, "steps": self._steps, "outcome": outcome})

    async def close(self) -> None:
        await self._threads.call(self._steps.close, {})


_Entered = _OnLoop | _InThread


def run_in_thread(
    hooks: Sequence[AroundHook], job: Job, attempt: Callable[[], Outcome], judge: Judge
) -> Outcome:
    """Run an attempt within sync functions, all in the current thread; return its outcome."""
    entered: list[tuple[AroundHook, Generator[None, Outcome, None]]] = []
    try:
        for hook in hooks:
            steps = cast("Generator[None, Outcome, None]", hook.function(job))
            _enter(hook, steps)
            entered.append((hook, steps))
        outcome = attempt()
    except BaseException as error:  # noqa: BLE001 - the function may raise what a handler may
        outcome = judge(error)
    while entered:
        try:
            _leave(*entered.pop(), outcome)
        except BaseException as error:  # noqa: BLE001 - the function may raise what a handler may
            outcome = judge(error)
    return outcome


def _enter(hook: AroundHook, steps: Generator[None, Outcome, None]) -> None:
    try:
        next(steps)
    except StopIteration:
        raise _no_yield(hook) from None


def _leave(hook: AroundHook, steps: Generator[None, Outcome, None], outcome: Outcome) -> None:
    try:
        steps.send(outcome)
    except StopIteration:
        return
    steps.close()
    raise _second_yield(hook)


def _no_yield(hook: AroundHook) -> HookBroken:
    return HookBroken(f"{hook.name} ended before its yield; to skip the job, raise Skip('why') there")


def _second_yield(hook: AroundHook) -> HookBroken:
    return HookBroken(f"{hook.name} yielded twice; it runs around one attempt, so let it yield once")
