"""Calls the functions that an application runs when a worker starts and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from onward.handlers.hooks.worker_hooks import WorkerHook
from onward.logs import get_logger
from onward.worker.attempts.thread_slots import Threads

log = get_logger("onward.worker")

_STOP_SECONDS = 10.0


async def call_hook(hook: WorkerHook) -> None:
    """Call a hook; its error is logged."""
    try:
        if hook.is_async:
            await hook.function()
        else:
            # In a daemon thread, so that a hook that never returns does not keep the process from ending.
            threads = Threads()
            await threads.call(hook.function, {})
            threads.close()
    except (Exception, SystemExit):
        log.exception("%s hook %s failed; the worker goes on", hook.event, hook.name)


async def call_stop_hooks(hooks: Iterable[WorkerHook]) -> None:
    """Call the hooks one after the other; one that takes too long is left behind."""
    for hook in hooks:
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await call_hook(hook)
        except TimeoutError:
            log.error("on_stop hook %s did not end within %g s", hook.name, _STOP_SECONDS)  # noqa: TRY400
