"""An event loop for a tick, whose end does not wait for what handlers have left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_LEAVE_SECONDS = 0.1


def run_tick(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new event loop; leave threads and tasks alone that do not stop at its end."""
    # `asyncio.run` would wait for all tasks, and for the threads of `asyncio.to_thread`.
    loop = asyncio.new_event_loop()
    threads = ThreadPoolExecutor(thread_name_prefix="onward tick")
    loop.set_default_executor(threads)
    runner = asyncio.Runner(loop_factory=lambda: loop)
    try:
        return runner.run(main)
    finally:
        runner.run(_leave())
        threads.shutdown(wait=False, cancel_futures=True)
        loop.close()


async def _leave() -> None:
    """Cancel the tasks that are left; close the async generators if all of them stop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if not tasks or not (await asyncio.wait(tasks, timeout=_LEAVE_SECONDS))[1]:
        await asyncio.get_running_loop().shutdown_asyncgens()
