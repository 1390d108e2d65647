"""Threads for sync handlers.

There are as many threads as calls have run at once. Results go back to the event loop in bursts.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

Work = tuple[asyncio.Future[Any], Context, Callable[..., Any], Mapping[str, Any]]


class Threads:
    """Runs functions in threads, at a third of the cost of `run_in_executor`: a burst wakes the loop once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._delivering = False
        self._count = 0
        self._outstanding = 0

    def call(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> asyncio.Future[Any]:
        """Run a function in a thread; a caller that no longer wants the result cancels the future."""
        future = self._loop.create_future()
        self._outstanding += 1
        if self._outstanding > self._count:
            self._count += 1
            # A daemon, else a handler that never returns would keep the process from ending.
            threading.Thread(target=self._serve, name=f"onward handler {self._count}", daemon=True).start()
        self._work.put((future, copy_context(), function, arguments))
        return future

    def close(self) -> None:
        """Let the threads end once their calls are done."""
        for _ in range(self._count):
            self._work.put(None)
        self._count = 0

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            future, context, function, arguments = work
            result, error = None, None
            try:
                result = context.run(function, **arguments)
            except BaseException as raised:  # noqa: BLE001 - it is handed on, whatever it is
                error = raised
            self._done.append((future, result, error))
            del work, future, context, function, arguments, result, error
            if not self._delivering:
                self._delivering = True
                try:
                    self._loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:
                    # The loop was closed, so no task waits for results.
                    return

    def _deliver(self) -> None:
        self._delivering = False
        while self._done:
            future, result, error = self._done.popleft()
            self._outstanding -= 1
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            elif isinstance(error, StopIteration):
                # A future can't carry StopIteration.
                future.set_exception(RuntimeError(f"the handler raised StopIteration: {error}"))
            else:
                future.set_exception(error)
