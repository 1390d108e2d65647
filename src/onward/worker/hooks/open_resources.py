"""The open resources of a worker: opened when a handler first needs them, closed in reverse order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any

from onward.handlers.hooks.resources import Resource
from onward.logs import get_logger
from onward.worker.attempts.attempt import Running
from onward.worker.attempts.thread_slots import Threads

log = get_logger("onward.worker")

_CLOSE_SECONDS = 10.0
_END = object()


class ResourceBroken(Exception):
    """The function of a resource did not yield exactly once."""


class OpenResources:
    """The resources that handlers of this worker have needed so far, in the order of their opening."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._held: dict[Resource[Any], _Held] = {}
        # Else what a resource enqueues would be a child of the job that happened to need it first.
        self._context = copy_context()

    async def supply(self, run: Running, arguments: dict[str, Any]) -> None:
        """Add the resources of a handler to its arguments; raise the error of one that can't be opened."""
        wanted: Mapping[str, Resource[Any]] = run.handler.resources
        for name, resource in wanted.items():
            # As the future of the run, so that a thread handler's time-out ends this wait too.
            run.future = self._opened(resource)
            arguments[name] = await run.future

    async def close(self) -> None:
        """Close the resources, the last opened first; an error is logged."""
        while self._held:
            resource, held = self._held.popitem()
            held.closing.set()
            await asyncio.wait({held.task}, timeout=_CLOSE_SECONDS)
            if not held.task.done():
                held.task.cancel()
                log.error("resource %s did not close within %g s", resource.name, _CLOSE_SECONDS)
            elif not held.task.cancelled() and (error := held.task.exception()) is not None:
                log.error("resource %s failed to close", resource.name, exc_info=error)

    def _opened(self, resource: Resource[Any]) -> asyncio.Future[Any]:
        """Return a future of the value, which its caller may cancel without cancelling the opening."""
        held = self._held.get(resource)
        if held is None:
            held = self._held[resource] = _Held(resource, self._threads)
            held.task = asyncio.create_task(
                held.hold(), name=f"onward resource {resource.name}", context=self._context.copy()
            )
            held.task.add_done_callback(partial(self._over, resource, held))
        waiting = asyncio.get_running_loop().create_future()
        held.opened.add_done_callback(partial(_pass_on, waiting))
        return waiting

    def _over(self, resource: Resource[Any], held: _Held, task: asyncio.Task[None]) -> None:
        """Forget a resource that could not be opened, so that the next attempt opens it anew."""
        if not held.opened.done():
            error = None if task.cancelled() else task.exception()
            held.opened.set_exception(error or asyncio.CancelledError())
            self._held.pop(resource, None)
        # Read here, because each attempt that waits gets it, and there may be none any more.
        held.opened.exception()


class _Held:
    """One resource, held open by one task, because the task that enters a cancel scope must leave it."""

    task: asyncio.Task[None]

    def __init__(self, resource: Resource[Any], threads: Threads) -> None:
        self._resource, self._threads = resource, threads
        self.opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.closing = asyncio.Event()

    async def hold(self) -> None:
        """Open the resource, wait until it should close, and close it."""
        function = self._resource.function
        if not self._resource.yields:
            self.opened.set_result(await (function() if self._resource.is_async else self._call(function)))
            return
        steps = function()
        value = await self._step(steps)
        if value is _END:
            raise ResourceBroken(
                f"resource {self._resource.name} ended before its yield; yield what it opens"
            )
        self.opened.set_result(value)
        await self.closing.wait()
        if await self._step(steps) is not _END:
            raise ResourceBroken(f"resource {self._resource.name} yielded twice; let it yield once")

    async def _step(self, steps: Any) -> Any:
        if self._resource.is_async:
            return await _anext(steps)
        return await self._call(partial(_next, steps))

    def _call(self, function: Any) -> asyncio.Future[Any]:
        return self._threads.call(function, {})


def _next(steps: Iterator[Any]) -> Any:
    return next(steps, _END)


async def _anext(steps: AsyncIterator[Any]) -> Any:
    return await anext(steps, _END)


def _pass_on(waiting: asyncio.Future[Any], opened: asyncio.Future[Any]) -> None:
    if waiting.done():
        return
    if (error := opened.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(opened.result())
