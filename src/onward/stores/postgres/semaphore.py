"""Counting semaphores whose wait has a timeout, for threads and for tasks of an event loop."""

from __future__ import annotations

import asyncio
from queue import Empty, SimpleQueue


class Places:
    """A semaphore for threads."""

    def __init__(self, count: int) -> None:
        # Not `threading.Semaphore`, which is written in Python: it took a twentieth of an enqueue's own time.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(count):
            self._free.put(None)

    def take(self, timeout: float) -> bool:
        """Take a place; return False if none became free within `timeout` seconds."""
        try:
            self._free.get(timeout=timeout)
        except Empty:
            return False
        return True

    def free(self) -> None:
        """Free a place."""
        self._free.put(None)


class AsyncPlaces:
    """A semaphore for tasks of an event loop."""

    def __init__(self, count: int) -> None:
        self._semaphore = asyncio.Semaphore(count)

    async def take(self, timeout: float) -> bool:  # noqa: ASYNC109
        """Take a place; return False if none became free within `timeout` seconds."""
        if not self._semaphore.locked():
            return await self._semaphore.acquire()
        try:
            async with asyncio.timeout(timeout):
                return await self._semaphore.acquire()
        except TimeoutError:
            return False

    def free(self) -> None:
        """Free a place."""
        self._semaphore.release()
